package batcher

import (
	"context"

	"github.com/feedsink/feedsink/schemas"
)

// errorsLife ends an import of which only records are left whose rows were in error,
// and that had no other place when it ended. They become dead letters if there is a
// topic for them by now; else they stay where they are.
func (f *importRun) errorsLife(ctx, send context.Context, imp Import) error {
	f.log.Info("looking once more at the rows in error of an import under a former owner", "file", imp.File, "execution", imp.Execution)
	results, err := f.await(ctx, imp, forgottenPolls)
	if err != nil {
		return err
	}
	imp.Rows = max(results.Read, results.InError)
	if results.Status == Finished && results.InError != 0 {
		err = f.reject(ctx, &imp, results)
	} else {
		err = f.rejectAll(ctx, imp)
	}
	if err != nil {
		return err
	}
	return f.confirm(send, imp)
}

// rejectAll makes dead letters of all records that an import with OnlyErrors holds:
// the service does not tell any more why their rows were in error.
func (f *importRun) rejectAll(ctx context.Context, imp Import) error {
	f.log.Warn("the service does not tell any more why rows were in error; all records that waited become dead letters",
		"file", imp.File, "execution", imp.Execution)
	f.enter(RowErrors, imp)
	return f.patiently(ctx, "read the records behind rows in error", func(ctx context.Context) error {
		return f.batcher.cfg.Records.Again(ctx, imp, f.generation.claims, func(string, *schemas.Write, At) string {
			return "the service put the row in error and does not tell the reason any more"
		})
	})
}
