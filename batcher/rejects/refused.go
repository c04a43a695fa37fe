package rejects

import (
	"errors"
	"slices"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/schemas"
)

// Refused are writes of a key that the service has refused for good, and that are in no file.
type Refused struct {
	Member int // the mapping's place on the queue
	Key    string
	Taken  []reconcile.At // from the other lane, whose ledger has them confirmed
	Newer  []reconcile.At // of the other lane, in favour of which older rows were left out of the file
	Reason string
}

// ReasonOf is why the service has refused what a call says: in its own words, if there are any.
func ReasonOf(err error) string {
	if failure, ok := errors.AsType[contract.Failure](err); ok && failure.Reason() != "" {
		return failure.Reason()
	}
	return err.Error()
}

// Why is the reason of the dead letter of a record that was taken, or left out; "": it has none.
func (w *Refused) Why(lane schemas.Lane, at reconcile.At, taken bool) string {
	left := func(newer reconcile.At) bool { return at.Partition != newer.Partition || at.Offset < newer.Offset }
	switch {
	case taken && slices.Contains(w.Taken, at):
		return w.Reason
	case !taken && lane == schemas.Batch && slices.ContainsFunc(w.Newer, left):
		return "its row was left out of the file in favour of a newer record of the other lane, which the service refuses: " + w.Reason
	}
	return ""
}
