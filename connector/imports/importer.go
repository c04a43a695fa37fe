package imports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/tracing"
)

// Importer gives the batcher operations 10, 11 and 12.
type Importer struct {
	Client *service.Client
	Known  *calls.Service            // what calls and imports know of the service together
	Zones  map[string]*time.Location // by ETL: the calendar its table's slots follow
	Leased func() bool               // whether no other member can have the table by now
	Spans  *tracing.Imports          // nil: tracing is off
}

// errNotLeased stops a trigger whose intent was committed, but so long ago that
// another member may have taken the import up. The next commit tells.
var errNotLeased contract.Failure = contract.NotSent{Why: "not sent: the consumer group has not answered for so long that the table may be another member's"}

// Trigger implements contract.Importer.
func (i Importer) Trigger(ctx context.Context, etl, name string, open func() (io.ReadCloser, int64, error)) (string, error) {
	may := func() error {
		if !i.Leased() {
			return errNotLeased
		}
		return i.wanted()
	}
	if err := may(); err != nil {
		return "", err
	}
	file := service.File{Name: name, Open: open}
	return Request(i.Known, func() (string, error) {
		ctx, call := i.Spans.Trigger(ctx, name)
		execution, err := i.Client.While(may).Trigger(ctx, etl, file, i.Zones[etl])
		call.End(err, tracing.StatusOf(err))
		return execution.ID, err
	})
}

// Results implements contract.Importer.
func (i Importer) Results(ctx context.Context, execution string) (contract.Results, error) {
	r, err := Request(i.Known, func() (service.Results, error) { return i.Client.While(i.wanted).Results(ctx, execution) })
	if err != nil {
		return contract.Results{}, err
	}
	got := contract.Results{Status: contract.Status(r.Status), Reason: r.Error, Cause: r.Cause(), SameAgain: r.FileAtFault(), TooLarge: r.TooLarge()}
	if r.Status == service.Finished {
		c := r.Counters // of rows in error that are not told, only the output files tell
		got.Read, got.InError, got.Inserted, got.Updated, got.Deleted = c.Read, c.InError, c.Inserted, c.Updated, c.Deleted
	}
	return got, nil
}

// OutputFiles implements contract.Importer.
func (i Importer) OutputFiles(ctx context.Context, execution string, w io.Writer) error {
	_, err := Request(i.Known, func() (service.Output, error) { return i.Client.While(i.wanted).OutputFiles(ctx, execution, w) })
	return err
}

// Request sends an import's request unless the service has named a time before which
// it wants none, and has all calls wait if the answer names one. That a table has no
// slot left is about no other request.
func Request[T any](known *calls.Service, send func() (T, error)) (T, error) {
	if err := wanted(known); err != nil {
		var none T
		return none, err
	}
	got, err := send()
	if e, ok := errors.AsType[*service.Error](err); ok && !e.NoSlot() {
		known.Heard(err)
	}
	return got, err
}

func (i Importer) wanted() error { return wanted(i.Known) }

// wanted is the error of a request that is made before the time that the service has named.
func wanted(known *calls.Service) error {
	if held := known.Held(); held > 0 {
		return contract.NotSent{Why: fmt.Sprintf("not sent: the service wants no request for %v (Retry-After)", held.Round(time.Second)), After: held}
	}
	return nil
}

// HeldGate also has a file wait, before it is sealed or its intent committed, until
// the service wants requests.
type HeldGate struct {
	contract.Gate
	Known *calls.Service
}

// Wait implements contract.Gate.
func (g HeldGate) Wait(mapping string, imp *contract.Import, retry bool) time.Duration {
	return max(g.Gate.Wait(mapping, imp, retry), g.Known.Held())
}
