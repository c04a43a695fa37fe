//go:build page

package page

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// noon is a time zone in which it is about midday: shortly before midnight the slots that
// are left go out at once, and the next day's come while a test waits. POSIX names the zone
// that is five hours ahead GMT-5.
var noon = fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12)

// inYAML changes the configuration.
func inYAML(oldnew ...string) func(string) string {
	return func(yaml string) string { return strings.NewReplacer(oldnew...).Replace(yaml) }
}

// answers has the service answer operations with one thing alone.
func answers(answer sandbox.Answer, ops ...int) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) {
		for _, op := range ops {
			w.Service.Inject(sandbox.Fault{Match: sandbox.Match{Op: op}, Answer: answer})
		}
	}
}

// orders in files after those of the customers.
const orderFiles = `    routes: [{lane: batch}]
    after: [customers]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      delete: {etl: "104", mode: DELETE}
      columns: [businessKey, status]
      roll: {rows: 2000, bytes: 16MiB, age: 4s}
`

var runningStates = []struct {
	name    string
	change  func(yaml string) string
	happens func(t *testing.T, w *world) // before there are events; nil: nothing
	first   string                       // is shown before there are more events; "": there are no more
	shows   []string
}{
	{"topic-missing", inYAML("[shop.orders]", "[shop.orders, shop.returns]"), nil, "", []string{"topic shop.returns does not exist; create it", "orders ▲ waiting", "customers ● running"}},
	{"throttled", nil, answers(sandbox.StatusAfter(http.StatusTooManyRequests, 2*time.Minute), 1, 4, 10), "", []string{
		"All calls wait until", "the service answered 429", "Requests for imports wait until", "waits until the service wants requests again", "customers ▲ waiting",
		"closed, but calls wait",
	}},
	{"key-revoked", nil, func(_ *testing.T, w *world) {
		w.Service.RevokeKey("playground-key")
		w.Service.RevokeTokens()
	}, "", []string{"the service has given no token: access token: 401", "correct service.apiKeyFile or service.apiKey", "refused: 401"}},
	{"right-missing", nil, answers(sandbox.Status(http.StatusForbidden), 4), "", []string{"Calls for table orders wait until", "lacks the right for the table", "orders ▲ waiting", "closed, but calls for a table wait"}},
	{"disk-full", nil, func(t *testing.T, w *world) {
		if err := errors.Join(os.RemoveAll(w.spool), os.WriteFile(w.spool, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}, "", []string{"Make room on the spool's disk (spool.dir)", "customers ▲ waiting"}},
	{"slot", inYAML("slotsPerDay: 10000", "slotsPerDay: 12\n      timezone: "+noon), nil, "FINISHED", []string{"waits for a slot: ", "the next new import may go at"}},
	{"no-slot-left", inYAML("slotsPerDay: 10000", "slotsPerDay: 1\n      reserve: 0\n      timezone: "+noon), nil, "FINISHED", []string{"one of the table's imports of the day, until 00:00", "has no slot left today", "the next new import may go at 00:00"}},
	{"parents", inYAML("    routes: [{lane: immediate}]\n", orderFiles), func(_ *testing.T, w *world) { w.Service.Hold() }, "", []string{
		"its file waits until what was read before it of customers is in the table", "waiting for its parents",
	}},
	{"paused", nil, func(t *testing.T, w *world) {
		client, err := admin.NewClient(w.page, admin.Credentials{})
		if err != nil {
			t.Fatal(err)
		}
		var into any
		if err := client.Pause(t.Context(), "customers", admin.PauseRequest{Reason: "the table is being migrated", Until: time.Now().Add(20 * time.Hour)}, &into); err != nil {
			t.Fatal(err)
		}
	}, "", []string{"is paused by a person", "the table is being migrated", "feedsink resume --mapping customers --server"}},
	{"dead-letters", nil, nil, "", []string{"shop.orders[", "feedsink dlq list -c feedsink.yaml"}},
}

// TestRunningSinkSaysWhatItWaitsFor: none of it is made up.
func TestRunningSinkSaysWhatItWaitsFor(t *testing.T) {
	for _, state := range runningStates {
		t.Run(state.name, func(t *testing.T) {
			w := newWorld(t, state.change)
			b := open(t, w.page)
			b.awaits("the sink runs", "document.getElementById('state').textContent.startsWith('running')")
			if state.happens != nil {
				state.happens(t, w)
			}
			eval[chromedp.Void](b, everyDetail)
			w.events(t, 1000)
			if state.first != "" {
				b.shows(state.first)
				w.events(t, 1000)
			}
			for _, words := range state.shows {
				b.shows(words)
			}
			nothingIsCutOff(b)
			b.judged("running-" + state.name)
			eval[chromedp.Void](b, "document.querySelectorAll('details').forEach(d => d.open = false)")
			b.pictured("running-" + state.name + "-closed")
		})
	}
}
