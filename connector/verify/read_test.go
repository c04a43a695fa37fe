package verify

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// What the service does not show is neither equal nor a difference; one that does not answer
// ends the run.
func TestOnlyTheServicesAnswersAreJudged(t *testing.T) {
	tables, err := sandbox.New(sandbox.Config{Entity: "acme", APIKeys: []string{"key"}, Tables: []sandbox.Table{{Name: "orders", Custom: true}}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	server, err := tables.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client, err := service.New(service.Config{
		BaseURL: server.URL(), AuthURL: server.URL(), Entity: "acme", Timeout: 5 * time.Second,
		APIKey: func() (service.Secret, error) { return service.NewSecret("key"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		_, _ = server.Close(), tables.Close() // the test is over
	})
	v := &Verify{
		Get: client.GetRecord, limiter: rate.NewLimiter(rate.Inf, 1), GiveUp: time.Minute,
		Backoff: retry.Backoff{Initial: time.Millisecond, Max: time.Millisecond}, Random: func() float64 { return 0 },
	}
	state := replay.State{Write: schemas.Write{Op: schemas.Upsert, Table: schemas.Table{Name: "orders", Custom: true}, Key: "o"}, Record: "orders[0]@7"}
	for _, c := range []struct {
		name                      string
		fault                     sandbox.Fault
		compared, missing, unread int64
	}{
		{"its own 404", sandbox.Fault{}, 1, 1, 0},
		{"an answer at a later try", sandbox.Fault{Answer: sandbox.Status(503), Count: 2}, 1, 1, 0},
		{"a refusal", sandbox.Fault{Answer: sandbox.Status(400)}, 0, 0, 1},
	} {
		tables.ClearFaults()
		c.fault.Match = sandbox.Match{Op: 6}
		tables.Inject(c.fault)
		found := newFindings()
		have, err := v.read(t.Context(), []replay.State{state})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		v.judge(&state, &have[0], found)
		missing := int64(0)
		if d := found.different["o"]; d.Why == Missing && d.Record == state.Record {
			missing++
		}
		if found.compared != c.compared || missing != c.missing || found.unread["rejected"] != c.unread {
			t.Errorf("%s: got %+v, want %d compared, %d missing, %d unread", c.name, found, c.compared, c.missing, c.unread)
		}
	}
	tables.ClearFaults()
	tables.Inject(sandbox.Fault{Match: sandbox.Match{Op: 6}, Answer: sandbox.Status(503)})
	v.GiveUp = 10 * time.Millisecond
	if _, err := v.read(t.Context(), []replay.State{state}); err == nil || !strings.Contains(err.Error(), "could not be read for 10ms") {
		t.Errorf("no answer: got %v, want the run to end", err)
	}
}
