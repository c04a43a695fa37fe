//go:build !image

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

// routed is bothLanes with other routes; without imports where no record goes by
// file.
func routed(routes string) string {
	yaml := strings.Replace(bothLanes, `routes: [{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]`, "routes: "+routes, 1)
	if !strings.Contains(routes, "batch") {
		yaml = yaml[:strings.Index(yaml, "    imports:")]
	}
	return strings.Replace(head, "timeout: 2s", "timeout: 2s\n  concurrency: {start: 2, max: 2}", 1) + deadLetters + yaml
}

const (
	nowByCall  = `[{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]`
	nowByFile  = `[{when: 'headers.lane == "now"', lane: batch}, {lane: immediate}]`
	allByCall  = `[{lane: immediate}]`
	allByFile  = `[{lane: batch}]`
	oddByCall  = `[{when: 'properties.seq % 2 == 1', lane: immediate}, {lane: batch}]`
	evenByCall = `[{when: 'properties.seq % 2 == 0', lane: immediate}, {lane: batch}]`
)

// only starts one lane, as a Deployment of its own.
func (w *world) only(lane schemas.Lane, routes string) *running {
	w.t.Helper()
	w.lanes = []schemas.Lane{lane}
	defer func() { w.lanes = nil }()
	return w.start(routed(routes))
}

// arrived waits until every lane that is used has come to the log's end.
func (w *world) arrived(lanes ...string) {
	w.t.Helper()
	for _, lane := range lanes {
		w.until("the "+lane+" lane is at the end of the log", func() bool { return w.lag(lane, "orders") == 0 })
	}
}

func (w *world) noDeadLetters() {
	w.t.Helper()
	if dead := w.dead(); len(dead) > 0 {
		w.t.Errorf("dead letters: got %d, want none", len(dead))
	}
}

func TestBatchLaneLeavesNothingToALaneThatHasNotAgreed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	batch := w.only(schemas.Batch, nowByCall)
	w.produce(now(order("o1", "NOW", 1)))
	w.until("the status says what the record waits for", func() bool {
		return strings.Contains(get(t, batch.AdminAddress(), "/status"), "sink-immediate has committed nothing of this partition")
	})
	batch.stop()
	w.start(routed(nowByFile))
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "1 NOW"})
	w.noDeadLetters()
}

func TestLanesThatTakeNewRoutesOneAfterTheOtherLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	immediate, batch := w.only(schemas.Immediate, nowByCall), w.only(schemas.Batch, nowByCall)
	w.produce(now(order("o1", "A", 1)), order("o2", "A", 1))
	w.bothSettled()
	batch.stop()
	batch = w.only(schemas.Batch, nowByFile)
	w.produce(now(order("o1", "B", 2)), order("o2", "B", 2), order("o3", "B", 2), now(order("o4", "B", 2)))
	w.until("the lane with the new routes says what it waits for", func() bool {
		return strings.Contains(get(t, batch.AdminAddress(), "/status"), "sink-immediate has applied other routes since")
	})
	immediate.stop()
	w.only(schemas.Immediate, nowByFile)
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 B", "o2": "2 B", "o3": "2 B", "o4": "2 B"})
	w.noDeadLetters()
}

func TestALaneThatIsNotUsedAnyMoreLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	t.Run("batch", func(t *testing.T) {
		w := newWorld(t, withBothETLs)
		both := w.start(routed(nowByCall))
		w.produce(order("o1", "FILE", 1))
		w.bothSettled()
		both.stop()
		immediate := w.only(schemas.Immediate, nowByCall)
		w.produce(order("o2", "FILE", 1), now(order("o3", "NOW", 1)), order("o1", "FILE", 2))
		w.arrived("immediate") // the batch lane has not read them
		immediate.stop()
		w.start(routed(allByCall))
		w.until("the remaining lane has written them", func() bool { return w.service.Len("orders") == 3 })
		w.arrived("immediate")
		w.ordersAre(map[string]string{"o1": "2 FILE", "o2": "1 FILE", "o3": "1 NOW"})
		w.noDeadLetters()
	})
	t.Run("immediate", func(t *testing.T) {
		w := newWorld(t, withBothETLs)
		both := w.start(routed(nowByCall))
		w.produce(now(order("o1", "NOW", 1)))
		w.bothSettled()
		both.stop()
		batch := w.only(schemas.Batch, nowByCall)
		w.produce(now(order("o2", "NOW", 1)), order("o3", "FILE", 1), now(order("o1", "NOW", 2)))
		w.arrived("batch") // the immediate lane has not read them
		batch.stop()
		w.start(routed(allByFile))
		w.until("the remaining lane has written them", func() bool { return w.service.Len("orders") == 3 })
		w.arrived("batch")
		w.ordersAre(map[string]string{"o1": "2 NOW", "o2": "1 NOW", "o3": "1 FILE"})
		w.noDeadLetters()
	})
}

// TestFileOfFormerRoutesDoesNotOverwriteNewerCalls changes the routes while a file
// is on its way, and has a call overtake it.
func TestFileOfFormerRoutesDoesNotOverwriteNewerCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.service.Hold()
	first := w.start(routed(nowByCall))
	w.produce(order("o1", "FILE", 1), order("o2", "FILE", 1))
	w.until("the file is being imported", func() bool { return len(w.service.Executions()) == 1 })
	first.stop()
	w.start(routed(evenByCall))
	w.produce(order("o1", "CALL", 2))
	w.until("the call has landed", func() bool { return w.service.CallCount(4) == 1 })
	w.service.Release()
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 CALL", "o2": "1 FILE"})
	w.noDeadLetters()
}

// TestCallOfFormerRoutesDoesNotOverwriteANewerFile has the lane whose routes are
// still the former ones call after the file of the new ones has landed.
func TestCallOfFormerRoutesDoesNotOverwriteANewerFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	refused := sandbox.Status(http.StatusServiceUnavailable)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Answer: refused})
	immediate, batch := w.only(schemas.Immediate, nowByCall), w.only(schemas.Batch, nowByCall)
	w.produce(now(order("o1", "S", 1)))
	w.until("a call was tried", func() bool { return w.service.CallCount(4) > 0 })
	w.produce(now(order("o1", "S", 2)))
	batch.stop()
	w.only(schemas.Batch, nowByFile)
	w.until("the file has landed", func() bool {
		row, ok := w.service.Row("orders", "o1")
		return ok && row.Text("seq") == "2"
	})
	w.service.SetLatency(4, time.Second)
	calls := w.service.CallCount(4)
	w.service.ClearFaults()
	w.until("the older call is under way", func() bool { return w.service.CallCount(4) > calls })
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Answer: refused}) // the newer one
	w.until("the older call has landed", func() bool {
		row, _ := w.service.Row("orders", "o1")
		return row.Text("seq") == "1"
	})
	immediate.stop()
	w.service.ClearFaults()
	w.service.SetLatency(4, 0)
	w.only(schemas.Immediate, nowByFile)
	w.bothSettled()
	w.until("the newest state is back", func() bool {
		row, _ := w.service.Row("orders", "o1")
		return row.Text("seq") == "2"
	})
	w.noDeadLetters()
}

// TestRoutesFlipUnderLoad gives the lanes random routes at different times, with
// records coming all the while.
func TestRoutesFlipUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *sandbox.Config) {
		withBothETLs(c)
		c.Processing = 400 * time.Millisecond
	})
	w.service.SetLatency(4, 40*time.Millisecond) // the immediate lane falls behind
	rnd := rand.New(rand.NewPCG(3, 2))
	want, seq := map[string]string{}, 0
	load := func() {
		var records []*kgo.Record
		for range 60 {
			seq++
			key := fmt.Sprintf("o%d", rnd.IntN(200))
			r := order(key, "S", seq)
			if rnd.IntN(2) == 0 {
				r = now(r)
			}
			records = append(records, r)
			want[key] = fmt.Sprintf("%d S", seq)
		}
		w.produce(records...)
	}
	running := map[schemas.Lane]*running{}
	give := func(lane schemas.Lane, routes string) {
		if running[lane] != nil {
			running[lane].stop()
			running[lane] = nil
		}
		if lane == schemas.Batch && routes == allByCall || lane == schemas.Immediate && routes == allByFile {
			return
		}
		running[lane] = w.only(lane, routes)
	}
	all := []string{nowByCall, nowByFile, oddByCall, evenByCall, allByCall, allByFile}
	for range 12 {
		routes := all[rnd.IntN(len(all))]
		lanes := slices.Clone(schemas.Lanes)
		if rnd.IntN(2) == 0 {
			lanes[0], lanes[1] = lanes[1], lanes[0]
		}
		for _, lane := range lanes {
			load()
			if rnd.IntN(4) > 0 {
				give(lane, routes)
			}
			load()
		}
	}
	give(schemas.Immediate, nowByCall)
	give(schemas.Batch, nowByCall)
	w.bothSettled()
	w.ordersAre(want)
	w.noDeadLetters()
}
