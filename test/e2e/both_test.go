package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// bothLanes lets each order choose its lane.
const bothLanes = `
mappings:
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    routes: [{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      patch: {etl: "104", mode: UPDATE_ONLY, ignoresEmpty: true}
      delete: {etl: "105", mode: DELETE}
      columns: [businessKey, seq, status]
      roll: {rows: 500, bytes: 1MiB, age: 400ms}
      slotsPerDay: 1000
`

func withBothETLs(c *sandbox.Config) {
	withOrdersETL(c)
	c.ETLs = append(c.ETLs,
		sandbox.ETL{ID: "104", Loads: []sandbox.Load{{Table: "orders", Mode: sandbox.UpdateOnly, Flags: sandbox.Flags{IgnoreEmptyValues: true}, GenerateErrorFiles: true}}},
		sandbox.ETL{ID: "105", Loads: []sandbox.Load{{Table: "orders", Mode: sandbox.DeleteRows, GenerateErrorFiles: true}}})
}

// now has a record take the immediate lane.
func now(r *kgo.Record) *kgo.Record {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "lane", Value: []byte("now")})
	return r
}

func change(op, key, properties string) *kgo.Record {
	return event("orders", key, fmt.Sprintf(`{"op":%q,"businessKey":%q,"properties":{%s}}`, op, key, properties))
}

// newer are the writes of the immediate lane in these tests, by key, and what
// they make of a row with seq 1 and status "FILE".
var newer = map[string]struct {
	record *kgo.Record
	want   string
}{
	"replaced": {now(change("upsert", "replaced", `"seq":2,"status":"CALL"`)), "2 CALL"},
	"named":    {now(change("upsert", "named", `"seq":2`)), "2 FILE"},
	"merged":   {now(change("merge", "merged", `"seq":2`)), "2 FILE"},
	"patched":  {now(change("patch", "patched", `"seq":2`)), "2 FILE"},
	"deleted":  {now(change("delete", "deleted", "")), ""},
}

func (w *world) ordersAre(want map[string]string) {
	w.t.Helper()
	got := map[string]string{}
	for key, row := range w.service.Rows("orders") {
		got[key] = row.Text("seq") + " " + row.Text("status")
	}
	for key := range want {
		if got[key] != want[key] {
			w.t.Errorf("order %s: got %q, want %q", key, got[key], want[key])
		}
	}
}

func (w *world) bothSettled() {
	w.t.Helper()
	w.until("both groups are at the end of the log", func() bool {
		return w.lag("immediate", "orders")+w.lag("batch", "orders") == 0
	})
}

// TestNewestStateWinsInEveryPhaseOfAFile writes rows, and calls to the same keys
// while the file is in each phase of its life.
func TestNewestStateWinsInEveryPhaseOfAFile(t *testing.T) {
	t.Parallel()
	for name, reach := range map[string]func(w *world){
		"open": func(*world) {},
		"being sent": func(w *world) {
			w.until("the file is on its way", func() bool { return w.service.CallCount(10) > 0 })
		},
		"running": func(w *world) {
			w.until("the file is being imported", func() bool { return len(w.service.Executions()) == 1 })
		},
		"landed": func(w *world) {
			w.until("the file is being imported", func() bool { return len(w.service.Executions()) == 1 })
			w.service.Release()
			w.until("its rows are in the table", func() bool { return w.service.Len("orders") == len(newer) })
		},
		"confirmed": func(w *world) {
			w.service.Release()
			w.bothSettled()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withBothETLs)
			w.service.Hold()
			if name == "being sent" {
				w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Delay: time.Second, Apply: true, Count: 1})
			}
			want := map[string]string{}
			for key, n := range newer {
				w.produce(change("upsert", key, `"seq":1,"status":"FILE"`))
				want[key] = n.want
			}
			w.start(head + deadLetters + bothLanes)
			reach(w)
			for _, n := range newer {
				w.produce(&kgo.Record{Topic: "orders", Key: n.record.Key, Value: n.record.Value, Headers: n.record.Headers})
			}
			if name == "being sent" || name == "running" {
				w.until("the calls have landed, or found nothing", func() bool { return w.service.CallCount(4) >= 2 && w.service.CallCount(5) > 0 })
			}
			w.service.Release()
			w.bothSettled()
			w.ordersAre(want)
			if dead := w.dead(); len(dead) > 0 {
				t.Errorf("dead letters: got %d, want none", len(dead))
			}
		})
	}
}

// TestRowWinsOverAnOlderCallThatLandsLate has calls wait for the service until
// the file with newer rows has landed.
func TestRowWinsOverAnOlderCallThatLandsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Answer: sandbox.Status(http.StatusServiceUnavailable)},
		sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o2"}, Answer: sandbox.Status(http.StatusServiceUnavailable)})
	w.produce(
		now(change("upsert", "o1", `"seq":1,"status":"CALL"`)), change("upsert", "o1", `"seq":2,"status":"FILE"`),
		now(change("upsert", "o2", `"seq":1,"status":"CALL"`)), change("delete", "o2", ""),
	)
	w.start(head + deadLetters + bothLanes)
	w.until("the files have landed", func() bool {
		all := w.service.Executions()
		return len(all) == 2 && all[0].Status == sandbox.Finished && all[1].Status == sandbox.Finished
	})
	w.service.ClearFaults()
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 FILE", "o2": ""})
}

// TestEarlyPatchOfNothingIsADeadLetterInTheEnd patches what no row brings.
func TestEarlyPatchOfNothingIsADeadLetterInTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.service.Hold()
	w.produce(change("upsert", "o1", `"seq":1,"status":"FILE"`), now(change("patch", "o1", `"seq":2`)), now(change("patch", "o2", `"seq":2`)))
	w.start(head + deadLetters + bothLanes)
	w.until("both patches were tried again and again", func() bool { return w.service.CallCount(5) > 10 })
	w.service.Release()
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 FILE", "o2": ""})
	if dead := w.dead(); len(dead) != 1 || string(dead[0].Key) != "o2" {
		t.Errorf("dead letters: got %d, want the patch of o2 alone", len(dead))
	}
}

// TestRowLeftOutForACallThatIsRefusedIsADeadLetter has calls refused for which older rows were left
// out of the open file: neither is in the table, and both are dead letters.
func TestRowLeftOutForACallThatIsRefusedIsADeadLetter(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"as it runs": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withBothETLs)
			w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Answer: sandbox.Status(http.StatusBadRequest)})
			w.produce(
				change("upsert", "o1", `"seq":1,"status":"FILE"`), now(change("upsert", "o1", `"seq":2,"status":"CALL"`)),
				change("upsert", "o2", `"seq":1,"status":"FILE"`), now(change("upsert", "o2", `"seq":2,"status":"CALL"`)),
			)
			yaml := head + deadLetters + strings.Replace(bothLanes, "age: 400ms", "age: 3s", 1)
			sink := w.start(yaml)
			if restarts {
				w.until("the call's record is a dead letter", func() bool { return len(w.dead()) == 1 })
				sink.stop()
				w.start(yaml)
			}
			w.bothSettled()
			w.ordersAre(map[string]string{"o1": "", "o2": "2 CALL"})
			lanes := map[string]bool{}
			for _, d := range w.dead() {
				lanes[string(d.Key)+" "+header(d, "feedsink.lane")] = true
			}
			if len(w.dead()) != 2 || !lanes["o1 immediate"] || !lanes["o1 batch"] {
				t.Errorf("dead letters: got %v of %d, want the call's record of o1 and the row's", lanes, len(w.dead()))
			}
		})
	}
}

// TestPatchOfNothingIsNotMadeVoidByAWriteThatIsRefused has both of a key's records be dead letters.
func TestPatchOfNothingIsNotMadeVoidByAWriteThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{"one lane": head + deadLetters + mappings, "both lanes": head + deadLetters + bothLanes} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withBothETLs)
			w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Answer: sandbox.Status(http.StatusBadRequest)})
			w.produce(now(change("patch", "o1", `"seq":1`)), now(change("upsert", "o1", `"seq":2,"status":"CALL"`)))
			w.start(yaml)
			w.until("the orders' calls are confirmed", func() bool { return w.lag("immediate", "orders") == 0 })
			if dead := w.dead(); len(dead) != 2 {
				t.Errorf("dead letters: got %d, want the patch, of nothing, and the upsert, which is refused", len(dead))
			}
		})
	}
}
