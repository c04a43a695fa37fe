package imports

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/schemas"
)

// mostRead is how many records are read for the rows in error of one import. Of
// the rows behind them it is only known that they may be in the table.
const mostRead = 10_000

// Creates tells whose a record is that a row of a CREATE_ONLY file has met: the
// file may have been loaded before, by a try whose answer was lost or by a former
// owner. Records are read one after the other, within the batch lane's part of the
// rate, and not before the time that the service has named.
type Creates struct {
	writes.Operations
	service *calls.Service
	backoff retry.Backoff
	rnd     *rand.Rand    // for several imports at once
	pace    *rate.Limiter // nil: no rate is configured
	perCall func() rate.Limit
}

// NewCreates reads nothing yet. share is the part of service.rate that it may use.
func NewCreates(client *service.Client, service *calls.Service, cfg *config.Config, share func() float64, rnd *rand.Rand) *Creates {
	c := &Creates{Operations: writes.Operations{Client: client}, service: service, backoff: retry.Backoff{Initial: cfg.Retry.Initial, Max: cfg.Retry.Max}, rnd: retry.Shared(rnd)}
	if r := cfg.Service.Rate; r.Calls > 0 {
		c.pace = rate.NewLimiter(0, 1)
		c.perCall = func() rate.Limit { return rate.Limit(float64(r.Calls) / r.Per.Seconds() * share()) }
	}
	return c
}

// judge says whose the row's record is. read counts the records that were read
// for the import.
func (c *Creates) judge(ctx context.Context, imp *contract.Import, p *kafka.Partition, r *kafka.Record, w *schemas.Write, read *int) (v writes.Verdict, err error) {
	cr := writes.Create{Written: r.Timestamp, Assigned: p.AssignedFor(r), Tried: p.Assigned(), Unsure: imp.Attempt > 1}
	other := writes.Theirs
	if cr.Unsure || r.Timestamp.Before(cr.Assigned) {
		other = writes.Perhaps
	}
	if !w.Table.Custom { // a profile cannot be read
		return other, nil
	}
	behind := spool.RankOf(imp.File).Round > 0
	if behind { // a create in a file just before may have made the record: when that was tells nothing
		cr.Written = time.Time{}
	}
	if *read++; *read > mostRead {
		return writes.Perhaps, nil
	}
	err = retry.Do(ctx, c.backoff, c.rnd.Float64, func(ctx context.Context) error {
		if err := c.wait(ctx); err != nil {
			return err
		}
		v, err = c.Judge(ctx, w, cr)
		c.service.Heard(err)
		return err
	}, func(err error) (bool, time.Duration) {
		e, ok := errors.AsType[*service.Error](err)
		if !ok {
			return true, 0
		}
		return e.Transient(), e.RetryAfter()
	})
	switch {
	case ctx.Err() != nil:
		return writes.Theirs, ctx.Err()
	case err != nil: // it cannot be read at all
		return writes.Perhaps, nil
	case v == writes.Theirs && behind:
		return other, nil
	}
	return v, nil
}

// wait waits until the service wants calls, and for the next of the rate.
func (c *Creates) wait(ctx context.Context) error {
	for held := c.service.Held(); held > 0; held = c.service.Held() {
		if err := retry.Sleep(ctx, held); err != nil {
			return err
		}
	}
	if c.pace == nil {
		return nil
	}
	c.pace.SetLimit(max(c.perCall(), slowestRate))
	return c.pace.Wait(ctx)
}

// slowestRate is for a member that has no share at present.
const slowestRate = rate.Limit(0.1)
