package waits

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/words"
)

// OfCalls is why calls wait; opened is what opened the table's breaker, if anything did.
func OfCalls(w calls.Wait, opened any) string {
	switch {
	case w.Again != nil:
		return again(w.Again)
	case w.Status != 0:
		return fmt.Sprintf("the service answered %d", w.Status)
	case w.Every > 0:
		return fmt.Sprintf("this member's part of service.rate is a call every %s: by its partitions, and by the weights of the routes that make calls (weight)", w.Every.Round(time.Second))
	case opened != nil:
		return fmt.Sprintf("calls fail, and the breaker is open: %v", opened)
	}
	return "calls fail, and the breaker is open"
}

// again says which keys of a table are tried again, and why.
func again(a *calls.Again) string {
	which := words.Counted(a.Keys, "key is tried again", "keys are tried again, the one that fails the longest")
	return fmt.Sprintf("%s since %s, %d times so far: %v", which, a.Since.UTC().Format(time.RFC3339), a.Tries, a.Err)
}

// Then is what follows what calls wait for.
func Then(w calls.Wait) string {
	switch {
	case w.Every > 0:
		return ""
	case w.Again != nil:
		return "; other keys go on. retry.giveUpAfter ends what never succeeds"
	case w.Until.IsZero():
		return "; it is tried again"
	}
	return "; then one call is tried"
}

// OfImport is why a step of an import is tried again. What the service said may be
// customers' data, and is not told.
func OfImport(im *contract.ImportStatus) (cause, why string) {
	if _, local := errors.AsType[*fs.PathError](im.LastErr); local {
		return Disk, fmt.Sprintf("%s: %v; it is tried again. Make room on the spool's disk (spool.dir)", im.Step, im.LastErr)
	}
	if told, ok := errors.AsType[contract.PublicError](im.LastErr); ok {
		return Service, fmt.Sprintf("%s: %v", im.Step, told)
	}
	e, ok := errors.AsType[interface {
		error
		Status() int
	}](im.LastErr)
	if ok && e.Status() == 0 { // its text is ours, or of the way there
		return Service, fmt.Sprintf("%s: the service does not answer: %v; it is asked again", im.Step, e)
	}
	if !ok {
		return Service, fmt.Sprintf("%s: the last try came to nothing; it is tried again, and the log says more", im.Step)
	}
	why = fmt.Sprintf("%s: the service answered %d; it is asked again", im.Step, e.Status())
	if e.Status() < http.StatusMultipleChoices { // what is wrong with it is in our own words
		why = fmt.Sprintf("%s: %v; it is asked again", im.Step, e)
	}
	switch e.Status() {
	case http.StatusTooManyRequests:
		return Throttled, why
	case http.StatusUnauthorized, http.StatusForbidden:
		return Unauthorized, why + ". The API key is wrong, or lacks the right for the table's imports (service.apiKeyFile or service.apiKey)"
	}
	return Service, why
}
