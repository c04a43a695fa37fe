package imports

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/service"
)

// forgotten are executions that the service does not know, or not any more. The
// interface does not say how long it knows one, nor how soon.
type forgotten struct {
	mu   sync.Mutex
	asks map[string]refusals // by execution
}

// refusals are when an execution was refused first and last.
type refusals struct{ since, last time.Time }

// refused takes note of a refusal for good and returns since when there are only such. What
// has not been asked for since it would count as ended is let go.
func (f *forgotten) refused(execution string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	r, known := f.asks[execution]
	if !known {
		if f.asks == nil {
			f.asks = map[string]refusals{}
		}
		maps.DeleteFunc(f.asks, func(_ string, other refusals) bool { return now.Sub(other.last) > rejects.Patience })
		r.since = now
	}
	r.last = now
	f.asks[execution] = r
	return r.since
}

// answered takes note that the service knows it.
func (f *forgotten) answered(execution string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.asks, execution)
}

// Former is what an immediate lane learns of the imports of a batch lane that it replaces.
type Former struct {
	Client *service.Client
	Known  *calls.Service
	Log    *slog.Logger

	forgotten forgotten
}

// Ended reports whether an import that a former batch lane sent has ended. One
// that the service has refused to tell of for so long that the batch lane would not ask
// again either has: what of it is to be in the table is there by now, and no more
// can be learnt of it.
func (f *Former) Ended(ctx context.Context, execution string) (bool, error) {
	r, err := Request(f.Known, func() (service.Results, error) { return f.Client.Results(ctx, execution) })
	if err == nil {
		f.forgotten.answered(execution)
		return r.Status == service.Finished || r.Status == service.Failed, nil
	}
	if e, ok := errors.AsType[*service.Error](err); !ok || e.Transient() {
		return false, err
	}
	since := f.forgotten.refused(execution)
	if time.Since(since) < rejects.Patience {
		return false, err
	}
	f.Log.Warn("the service does not know the other lane's import any more; it counts as ended, and the partitions that waited for it go on; "+
		"look at the table if its rows matter", "execution", execution, "asked_since", since.UTC(), "error", err)
	return true, nil
}
