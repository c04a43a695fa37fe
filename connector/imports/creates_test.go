package imports

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/schemas"
)

func readingFor(client *service.Client, service *calls.Service) *Creates {
	cfg := &config.Config{}
	cfg.Retry.Initial, cfg.Retry.Max = time.Millisecond, time.Millisecond
	return NewCreates(client, service, cfg, func() float64 { return 1 }, rand.New(rand.NewPCG(1, 2)))
}

// What one call was told means all of them: 429 is the service's, not the key's.
func TestRetryAfterOfARecordThatIsReadHoldsAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := startInBubble(t)
		s.Inject(sandbox.Fault{Match: sandbox.Match{Op: 6}, Answer: sandbox.StatusAfter(429, 10*time.Minute)})
		var known calls.Service
		c := readingFor(client, &known)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		created := &schemas.Write{Op: schemas.Create, Table: schemas.Table{Name: "orders", Custom: true}, Key: "o1"}
		go func() {
			read := 0
			_, err := c.judge(ctx, &contract.Import{}, &kafka.Partition{}, &kafka.Record{Timestamp: time.Now()}, created, &read)
			ended <- err
		}()
		time.Sleep(time.Minute)
		if got := known.Held(); s.CallCount(6) != 1 || got < 9*time.Minute-time.Second {
			t.Errorf("after %d requests calls are held for %v, want the time that the service named", s.CallCount(6), got)
		}
		end()
		if err := <-ended; err == nil {
			t.Error("got no error, want that of the end")
		}
	})
}

func TestNoRecordIsReadBeforeTheServiceWantsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known calls.Service
		known.Heard(throttled{})
		c, begun := readingFor(nil, &known), time.Now()
		if err := c.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begun); got != 30*time.Second {
			t.Errorf("waited: got %v, want the 30s that the service named", got)
		}
	})
}

// TestCreateBehindAnotherOneDoesNotTakeItsRecord sends a file of creates twice, as the first answer was
// lost. The record that it meets may be that of a create in the file before.
func TestCreateBehindAnotherOneDoesNotTakeItsRecord(t *testing.T) {
	const file = "orders-20261121T100000Z-abcdef."
	for _, tc := range []struct {
		file, status string
		want         writes.Verdict
	}{
		{"create.csv.gz", "SECOND", writes.Ours}, // a newer write may have changed it since
		{"create2.csv.gz", "SECOND", writes.Perhaps},
		{"create2.csv.gz", "FIRST", writes.Ours},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, client := startInBubble(t)
			order := func(status string) *schemas.Write {
				cell := schemas.Cell{Place: &schemas.Place{Section: schemas.Properties, Name: "status"}, Value: schemas.StringValue(status)}
				return &schemas.Write{Op: schemas.Create, Table: schemas.Table{Name: "orders", Custom: true}, Key: "o1", Cells: []schemas.Cell{cell}}
			}
			record := &kafka.Record{Timestamp: time.Now()}
			c := readingFor(client, &calls.Service{})
			if err := c.Call(t.Context(), order("FIRST"), writes.Create{}); err != nil {
				t.Fatal(err)
			}
			read := 0
			got, err := c.judge(t.Context(), &contract.Import{File: file + tc.file, Attempt: 2}, &kafka.Partition{}, record, order(tc.status), &read)
			if err != nil || got != tc.want {
				t.Errorf("%s, %s: got verdict %d, %v, want %d", tc.file, tc.status, got, err, tc.want)
			}
		})
	}
}

// throttled is a 429 with Retry-After: 30.
type throttled struct{}

func (throttled) Error() string             { return "429" }
func (throttled) Transient() bool           { return true }
func (throttled) Overload() bool            { return true }
func (throttled) NoToken() bool             { return false }
func (throttled) Shared() bool              { return false }
func (throttled) Unknown() bool             { return false }
func (throttled) RetryAfter() time.Duration { return 30 * time.Second }
func (throttled) Status() int               { return 429 }
