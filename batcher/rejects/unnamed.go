package rejects

import (
	"cmp"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
)

// Patience is how long the service is asked again for what became of an import's rows
// before the mapping halts, since it may write output files after it has said FINISHED; or
// for an execution that it does not know.
const Patience = 10 * time.Minute

// Unnamed is what keeps rows in error from being dead letters: the output files
// do not name all of them, or there is no place for one. Or the service has read fewer
// rows than it was sent.
type Unnamed struct {
	Why   string
	Final bool   // asking again does not help, or has not helped for long enough
	Do    string // what a person does about it; "": see that there are output files
	After time.Duration

	OnlyErrors bool // of the import only records in error are left: the mapping does not halt for them

	unread bool
}

func (u *Unnamed) Error() string { return u.Why }

// Wait is what is waited for, and until when.
func (u *Unnamed) Wait(until time.Time) contract.PublicError {
	what := "which rows are in error is not known: " + u.Why
	if u.unread {
		what = u.Why
	}
	then := "the mapping halts"
	if u.OnlyErrors {
		then = "all records that waited become dead letters"
	}
	return contract.PublicError(fmt.Sprintf("%s; it is asked again until %s, and then %s", what, until.UTC().Format(time.RFC3339), then))
}

// Reason is why the mapping halts, and what its release does. asked: again, for Patience.
func (u *Unnamed) Reason(imp *contract.Import, inError int64, asked bool) string {
	again := ""
	if asked {
		again = fmt.Sprintf(" (asked again for %v)", Patience)
	}
	if u.unread {
		return fmt.Sprintf("import %s, execution %s: FINISHED, but %s%s. Its records are not confirmed. "+
			"Look whether the rows are in the table (feedsink verify). After a release they are confirmed as if they were", imp.File, imp.Execution, u.Why, again)
	}
	many := ", its result does not say how many rows are in error"
	if inError > 0 {
		many = " with " + counted(inError) + " in error"
	}
	return fmt.Sprintf("import %s, execution %s: FINISHED%s, but %s%s. Their records are not confirmed. %s. "+
		"After a release the output files are asked for once more: rows in error that they do not name, or that cannot become dead letters, "+
		"are given up then and counted in feedsink_import_rows_unmatched_total",
		imp.File, imp.Execution, many, u.Why, again, cmp.Or(u.Do, "Let the ETL generate error files"))
}

// ReadAll is an *Unnamed if the service has read fewer rows than it was sent.
func ReadAll(results contract.Results, imp *contract.Import, final bool) error {
	if !results.Unread(imp) {
		return nil
	}
	why := fmt.Sprintf("the service has read %d of the %d rows that it was sent", results.Read, imp.Rows)
	return &Unnamed{Why: why, Final: final, unread: true}
}
