package batcher

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// forgotten is the status of an execution that the service does not know, or
// not any more: what became of its rows nobody can tell.
const forgotten Status = "unknown"

// forgottenPolls is how many polls in a row the service refuses for good before
// an execution counts as forgotten: several minutes, since an execution may take
// a while to be known everywhere.
const forgottenPolls = 10

// outcome awaits the end of the execution. One that is forgotten halts the
// mapping; once it is released the execution is asked for once more, and if it is
// still not known, its file is to be sent again.
func (f *importRun) outcome(ctx context.Context, imp *Import) (Results, error) {
	results, err := f.await(ctx, *imp, forgottenPolls)
	if err != nil || results.Status != forgotten {
		return results, err
	}
	reason := fmt.Sprintf("poll import %s, execution %s: %s; nobody can tell whether its rows are loaded, released it is asked for once more and then sent again",
		imp.File, imp.Execution, results.Cause)
	if err := f.halt(ctx, imp, reason); err != nil {
		return results, err
	}
	return f.await(ctx, *imp, 1)
}

// await polls until the execution has ended, less and less often. A poll that
// fails changes nothing, the import may still be running: nor does it lengthen the
// interval, which is about how long the import takes and not about an outage. Only
// so many in a row that were refused for good end it.
func (f *importRun) await(ctx context.Context, imp Import, refusals int) (Results, error) {
	f.enter(Importing, imp)
	var least time.Duration
	answered, refused := 0, 0
	for {
		wait := time.NewTimer(f.backoff(f.batcher.cfg.Poll, answered+refused, least))
		select {
		case <-ctx.Done():
			wait.Stop()
			return Results{}, ctx.Err()
		case <-f.hints:
			wait.Stop()
		case <-wait.C:
		}
		results, err := f.batcher.importer.Results(ctx, imp.Execution)
		if err == nil && (results.Status == Finished || results.Status == Failed) {
			return results, nil
		}
		least = 0
		if err == nil {
			answered, refused = answered+1, 0
		}
		if err != nil && ctx.Err() == nil {
			f.log.Warn("poll import: no answer, asking again", "file", imp.File, "execution", imp.Execution, "err", err)
			failure, ok := errors.AsType[Failure](err)
			if ok {
				least = failure.RetryAfter()
			}
			if refused++; !ok || failure.Transient() {
				refused = 0
			}
			if refused == refusals {
				f.hear(imp, failure.Reason())
				return Results{Status: forgotten, Cause: err.Error() + f.refusal(failure)}, nil
			}
		}
	}
}
