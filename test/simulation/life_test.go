//go:build simulation

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// live is one seed's life, from the first record to the judges.
func (w *world) live(ctx context.Context) {
	w.begun, w.feeding = w.plan.begin, make(chan struct{}, 1)
	time.Sleep(time.Until(w.begun))
	defer w.close()
	if err := w.open(); err != nil {
		w.fail("open the world: %v", err)
		return
	}
	w.say("%s", w.plan.String())
	busy := w.plan.pace
	if w.plan.quiet > 0 {
		w.plan.pace = w.plan.inQuiet()
	}
	for i := range w.plan.members {
		m := &member{w: w, name: fmt.Sprintf("member-%d", i+1)}
		if w.plan.apart {
			m.lanes = schemas.Lanes[i : i+1]
			if !slices.Contains(w.plan.lanes(), m.lanes[0]) {
				continue
			}
		}
		w.members = append(w.members, m)
		if m.start(); !m.on { //nolint:contextcheck // its end is kill or stop
			return // it says why
		}
	}
	if w.plan.quiet > 0 {
		w.goOn(ctx, w.plan.quiet)
		w.setPace(busy) //nolint:contextcheck // as above
	}
	w.goOn(ctx, w.plan.life)
	w.bunch(ctx, lastBunch, w.plan.tables...)
	w.heal() //nolint:contextcheck // its end is kill or stop
	if w.settle(ctx) {
		w.calm(ctx)
		w.settle(ctx) // with its routes another table may be read again, by file
		w.judgeDay()
	}
	for _, m := range w.members {
		m.end()
	}
	for _, p := range slices.Clone(w.former) {
		w.awaitEnd(p)
	}
	w.judge(ctx)
}

// setPace gives the members another pace, one after the other.
func (w *world) setPace(next pace) {
	w.plan.pace = next
	w.say("sessions of %v, a fault every %v", next.session, next.faultEvery)
	for _, m := range w.members {
		m.end()
		m.start()
	}
}

// goOn has events come and things go wrong for a time.
func (w *world) goOn(ctx context.Context, lasts time.Duration) {
	loading, endLoad := context.WithCancel(ctx)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		w.feed(loading)
	}()
	w.strike(time.Now().Add(lasts))
	endLoad()
	<-loaded
}

// feed produces events until ctx ends.
func (w *world) feed(ctx context.Context) {
	w.snapshot(ctx, w.plan.tables[0], w.plan.keys)
	w.plan.keys = 0
	for last := (time.Time{}); ; {
		now := time.Now()
		n, next := w.plan.comes(w.load.rnd, last, now)
		if last = now; n > 3*w.plan.bunch {
			w.say("%d events at once", n)
		}
		if !w.bunch(ctx, n, w.plan.tables...) || retry.Sleep(ctx, next) != nil {
			return
		}
	}
}

// snapshot gives a table n new keys, as fast as the broker takes them.
func (w *world) snapshot(ctx context.Context, t *table, n int) {
	ctx = context.WithoutCancel(ctx)
	w.feeding <- struct{}{}
	defer func() { <-w.feeding }()
	for range n {
		k := &key{kind: upserted, partition: w.load.rnd.Int32N(w.plan.partitions)}
		e, record := w.load.event(t, t.add(k))
		k.events = []*event{e}
		w.load.events++
		w.client.Produce(ctx, record, func(r *kgo.Record, err error) {
			if e.at = (place{t.topic, len(t.letters), r.Partition, r.Offset}); err != nil {
				w.fail("produce: %v", err)
			}
		})
	}
	if err := w.client.Flush(ctx); err != nil {
		w.fail("produce: %v", err)
	}
}

// lastBunch is how many events come together when nothing goes wrong any more: nothing is
// written over what the lanes make of them.
const lastBunch = 20

// bunch produces n events of the tables at once.
func (w *world) bunch(ctx context.Context, n int, of ...*table) bool {
	w.feeding <- struct{}{}
	defer func() { <-w.feeding }()
	for range n {
		t := pick(w.load.rnd, of...)
		w.mu.Lock()
		partitions := w.partitions[t.topic]
		w.mu.Unlock()
		k, e, r := w.load.next(t, partitions)
		if !w.produce(ctx, t, k, e, r) {
			return false
		}
	}
	return true
}

// produce writes the key's next event to its topic.
func (w *world) produce(ctx context.Context, t *table, k *key, e *event, r *kgo.Record) bool {
	if err := w.client.ProduceSync(context.WithoutCancel(ctx), r).FirstErr(); err != nil {
		w.fail("produce: %v", err)
		return false
	}
	e.at = place{t.topic, len(t.letters), r.Partition, r.Offset}
	k.events = append(k.events, e)
	w.load.events++
	return true
}

// strike has things go wrong until then, and heals them all.
func (w *world) strike(until time.Time) {
	type healing struct {
		at   time.Time
		what string
		do   func()
	}
	var due []healing
	weight := func(of []fault) (total int) {
		for _, f := range of {
			total += f.weight
		}
		return total
	}
	total := weight(faults)
	pace := rand.New(rand.NewPCG(w.seed, 2)) // a strike that is dropped leaves the others where they are
	next := func() time.Time {
		w.struck++
		return time.Now().Add(time.Second + time.Duration(pace.Int64N(int64(2*w.plan.faultEvery))))
	}
	for strike := next(); ; {
		slices.SortStableFunc(due, func(a, b healing) int { return a.at.Compare(b.at) })
		if len(due) > 0 && (!due[0].at.After(strike) || !time.Now().Before(until)) {
			time.Sleep(time.Until(due[0].at))
			due[0].do()
			if due[0].what != "" {
				w.say("over: %s", due[0].what)
			}
			due = due[1:]
			continue
		}
		if !strike.Before(until) {
			if len(due) == 0 {
				time.Sleep(time.Until(until))
				return
			}
			strike = due[len(due)-1].at.Add(time.Second) // what is due comes first
			continue
		}
		time.Sleep(time.Until(strike))
		n := w.struck
		if w.rnd = rand.New(rand.NewPCG(w.seed, 1000+uint64(n))); w.dropped[n] {
			strike = next()
			continue
		}
		w.strikes = append(w.strikes, n)
		from, dice := faults, w.rnd.IntN(total)
		if w.plan.shared != nil && w.rnd.IntN(4) > 0 {
			from, dice = sharedFaults, w.rnd.IntN(weight(sharedFaults))
		}
		if w.plan.cuts && w.rnd.IntN(4) == 0 {
			from, dice = []fault{{1, (*world).cutLogs}}, 0
		}
		for _, f := range from {
			if dice -= f.weight; dice < 0 {
				what, heal, after := f.begin(w)
				if what != "" {
					w.say("%d: %s", n, what)
				}
				if heal != nil {
					due = append(due, healing{time.Now().Add(after), what, heal})
				}
				break
			}
		}
		strike = next()
	}
}

// longWait is how many minutes of waiting are followed by hours of it, for slots or times of the day.
const longWait = 90

// heal ends what still goes wrong.
func (w *world) heal() {
	w.service.FailImports("customers", 0, "")
	w.service.FailImports("orders", 0, "")
	for _, m := range w.members {
		m.start()
	}
	w.say("all is well; %d events", w.load.events)
}

// settle lets everything be confirmed. It reports whether that came about.
func (w *world) settle(ctx context.Context) bool {
	waiting, _ := w.lag(ctx, w.plan.tables...)
	begun, bound := time.Now(), w.plan.bound(w.load.events, int(waiting), len(w.service.Executions()), time.Now())
	for looks := 1; ; looks++ {
		n, where := w.lag(ctx, w.plan.tables...)
		if n == 0 {
			w.say("everything is confirmed, after %v", time.Since(begun).Round(time.Second))
			time.Sleep(2 * time.Minute) // states that are sent once more
			return true
		}
		if time.Since(begun) > bound {
			w.fail("not confirmed %v after all is well:\n  %s", bound, strings.Join(where, "\n  "))
			w.keepStatus()
			return false
		}
		if looks%30 == 0 {
			w.release()       //nolint:contextcheck // its end is kill or stop
			w.restartHalted() //nolint:contextcheck // as above
		}
		if looks == longWait && w.plan.quiet > 0 {
			w.setPace(w.plan.inQuiet()) //nolint:contextcheck // as above
		}
		time.Sleep(time.Minute)
	}
}

// keepStatus writes what the members' /status says, for who looks why nothing goes on.
func (w *world) keepStatus() {
	for _, m := range w.members {
		if text, err := json.MarshalIndent(m.sink.Status(), "", " "); w.logs != "" && err == nil {
			_ = os.WriteFile(filepath.Join(w.logs, m.name+".status.json"), text, 0o600) // it only helps
		}
	}
}

// judge compares what is there with what the events say.
func (w *world) judge(ctx context.Context) {
	records, err := w.deadLetters(ctx)
	if err != nil {
		w.fail("read dead letters: %v", err)
		return
	}
	dead, strange := readLetters(records, w.plan.tables)
	for _, s := range strange {
		if !w.miscounts || !strings.Contains(s, "that the service's output files do not name") {
			w.fail("%s", s)
		}
	}
	tablesOf, perDay := map[string][]string{}, map[string]int{}
	for _, t := range w.plan.tables {
		for _, wrong := range judge(t, w.service.Rows(t.name), dead) {
			w.fail("%s", wrong)
			for _, c := range w.service.Calls() { // none, where the transcript is not followed
				if rest, of := strings.CutPrefix(wrong, c.Table+" "+c.Key); of && strings.ContainsAny(rest[:1], ": ") {
					w.say("%s: operation %d, answered %d, applied %t: %v", c.At.UTC().Format("02 15:04:05.000"), c.Op, c.Status, c.Applied, c.Values)
				}
			}
		}
		if perDay[t.name] = w.plan.slots; t.forgotten() {
			perDay[t.name] = math.MaxInt
		}
		for i := range loads {
			tablesOf[etl(t, i)] = append(tablesOf[etl(t, i)], t.name)
		}
	}
	executions := w.service.Executions()
	for _, wrong := range judgeSlots(executions, w.plan.zone, tablesOf, perDay) {
		w.fail("%s", wrong)
	}
	for _, wrong := range judgeFiles(executions, w.plan.maxFile) {
		w.fail("%s", wrong)
	}
	for _, wrong := range w.witness.judgeRate(w.plan.rate) {
		w.fail("%s", wrong)
	}
	w.say("%d dead letters, %d executions", len(dead), len(executions))
	for _, m := range w.members {
		files, _ := os.ReadDir(m.spool) // none is no files
		for _, f := range files {
			if name := f.Name(); name != "lock" && !w.unremovable[name] && !isKept(name) {
				w.fail("%s: a file is left in the spool: %s", m.process.name, f.Name())
			}
			if err := judgeKept(filepath.Join(m.spool, f.Name())); err != nil {
				w.fail("%s: a file that was kept cannot be read: %s: %v", m.process.name, f.Name(), err)
			}
		}
	}
	time.Sleep(5 * time.Minute) // idle connections are closed
	for _, g := range goroutines() {
		w.fail("a member's goroutine is left:\n%s", g)
	}
}

// goroutines are the stacks of those that belong to a member.
func goroutines() (left []string) {
	buffer := make([]byte, 16<<20)
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		for _, of := range []string{
			"feedsink/connector.", "feedsink/connector/calls.", "feedsink/connector/kafka", "feedsink/connector/service.",
			"feedsink/connector/admin.", "feedsink/connector/deadletter.", "feedsink/connector/imports.", "feedsink/connector/members.", "feedsink/connector/pacing.", "feedsink/batcher",
		} {
			if strings.Contains(stack, "github.com/feedsink/"+of) {
				left = append(left, stack)
				break
			}
		}
	}
	return left
}
