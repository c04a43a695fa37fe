//go:build simulation

package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/schemas"
)

// fault is something that goes wrong, and how it ends.
type fault struct {
	weight int
	begin  func(w *world) (what string, heal func(), after time.Duration)
}

func (w *world) some() *member    { return pick(w.rnd, w.members...) }
func (w *world) anyTable() *table { return pick(w.rnd, w.plan.tables...) }

// between is a duration, short ones as likely as long ones.
func (w *world) between(shortest, longest time.Duration) time.Duration {
	if w.rnd.IntN(2) == 0 {
		longest = shortest + (longest-shortest)/10
	}
	return shortest + time.Duration(w.rnd.Int64N(int64(longest-shortest)))
}

// answers has the service answer calls by these faults for a time.
func answers(weight int, what string, faults func(w *world) []sandbox.Fault) fault {
	return fault{weight, func(w *world) (string, func(), time.Duration) {
		w.service.Inject(faults(w)...)
		return what, w.service.ClearFaults, w.between(10*time.Second, 20*time.Minute)
	}}
}

func chance(p float64, answer sandbox.Answer) sandbox.Fault {
	return sandbox.Fault{Match: sandbox.Match{Probability: p}, Answer: answer}
}

// faults are what goes wrong.
var faults = []fault{
	{6, func(w *world) (string, func(), time.Duration) {
		m := w.some()
		m.kill(w.rnd.IntN(2) == 0)
		return "", m.start, w.between(time.Second, 10*time.Minute)
	}},
	{4, func(w *world) (string, func(), time.Duration) {
		m := w.some()
		m.end()
		return "", m.start, w.between(time.Second, time.Hour)
	}},
	{3, func(w *world) (string, func(), time.Duration) {
		m, r := w.some(), pick(w.rnd, refused, silent, deaf)
		host, name := m.host, m.process.name
		host.set(brokerAt, r, w.rnd.IntN(2) == 0)
		return fmt.Sprintf("%s does not reach the broker (%s)", name, reachName[r]), host.reachBroker, w.between(time.Second, 5*time.Minute)
	}},
	{2, func(w *world) (string, func(), time.Duration) {
		m, r := w.some(), pick(w.rnd, refused, silent, deaf)
		host, name := m.host, m.process.name
		host.set(serviceAt, r, w.rnd.IntN(2) == 0)
		w.witness.reaches(name, false)
		heal := func() {
			host.set(serviceAt, refused, false)
			host.set(serviceAt, open, false)
			w.witness.reaches(name, true)
		}
		return fmt.Sprintf("%s does not reach the service (%s)", name, reachName[r]), heal, w.between(time.Second, 20*time.Minute)
	}},
	{2, func(w *world) (string, func(), time.Duration) {
		if w.down {
			return "", nil, 0
		}
		w.down = true
		_ = w.server.Close() // its listener and all connections
		return "the service is down", func() {
			w.down = false
			if err := w.serve(); err != nil {
				w.fail("the service: %v", err)
			}
		}, w.between(10*time.Second, 30*time.Minute)
	}},
	{2, func(w *world) (string, func(), time.Duration) {
		w.service.SetLatency(0, 5*time.Second)
		w.slow = true
		return "the service is slow", func() { w.service.SetLatency(0, w.plan.callTime); w.slow = false }, w.between(time.Minute, 20*time.Minute)
	}},
	{2, func(w *world) (string, func(), time.Duration) {
		w.service.RevokeTokens()
		w.service.RevokeKey(apiKey)
		return "the key is revoked: 401", func() { w.service.AllowKey(apiKey) }, w.between(time.Second, 20*time.Minute)
	}},
	{3, func(w *world) (string, func(), time.Duration) {
		t := pick(w.rnd, w.plan.tables...)
		w.service.FailImports(t.name, 1, "the file is invalid")
		return "the next import of " + t.name + " is FAILED", nil, 0
	}},
	answers(2, "half of the calls are answered 503", func(*world) []sandbox.Fault { return []sandbox.Fault{chance(.5, sandbox.Status(503))} }),
	answers(2, "calls are answered 429 with Retry-After", func(*world) []sandbox.Fault {
		return []sandbox.Fault{chance(.3, sandbox.StatusAfter(http.StatusTooManyRequests, 20*time.Second))}
	}),
	answers(2, "a gateway answers 404", func(*world) []sandbox.Fault { return []sandbox.Fault{chance(.5, sandbox.Page(404))} }),
	answers(4, "answers are lost", func(*world) []sandbox.Fault {
		lost := chance(.3, sandbox.Reset())
		lost.Apply = true
		return []sandbox.Fault{lost}
	}),
	{4, func(w *world) (string, func(), time.Duration) { return w.rollOut(1) }},
	{1, func(w *world) (string, func(), time.Duration) { return w.addPartition() }},
	answers(2, "a gateway's page says 200", func(*world) []sandbox.Fault { return []sandbox.Fault{chance(.3, sandbox.Page(200))} }),
	answers(1, "a gateway answers 502", func(*world) []sandbox.Fault { return []sandbox.Fault{chance(.5, sandbox.Text(502, "Bad Gateway"))} }),
	answers(2, "one table is forbidden: 403", func(w *world) []sandbox.Fault {
		return []sandbox.Fault{{Match: sandbox.Match{Table: pick(w.rnd, w.plan.tables...).name}, Answer: sandbox.Status(403)}}
	}),
	{3, func(w *world) (string, func(), time.Duration) { return w.loseOutputs() }},
	{2, func(w *world) (string, func(), time.Duration) {
		m := w.some()
		by := pick(w.rnd, -25*time.Hour, -3*time.Hour, -10*time.Minute, 10*time.Minute, 2*time.Hour, 25*time.Hour)
		clock, name := m.clock, m.process.name
		clock.Store(int64(by))
		w.skewed = true
		return fmt.Sprintf("the clock of %s is set by %v", name, by), func() { clock.Store(0) }, w.between(time.Minute, 20*time.Minute)
	}},
	{2, func(w *world) (string, func(), time.Duration) {
		w.refuseDeadLetters.Store(true)
		return "the dead-letter topic is not authorized", func() { w.refuseDeadLetters.Store(false) }, w.between(time.Second, 20*time.Minute)
	}},
	{1, func(w *world) (string, func(), time.Duration) {
		if !w.plan.usesAvro() {
			return "", nil, 0
		}
		w.registry.away.Store(true)
		return "the schema registry is away", func() { w.registry.away.Store(false) }, w.between(10*time.Second, 20*time.Minute)
	}},
	{2, func(w *world) (string, func(), time.Duration) { return w.pause() }},
	{8, func(w *world) (string, func(), time.Duration) { return w.killAmidImport() }},
	{2, func(w *world) (string, func(), time.Duration) { return w.takeSpool() }},
	{2, func(w *world) (string, func(), time.Duration) { return w.slowDisk() }},
	{1, func(w *world) (string, func(), time.Duration) {
		w.witness.miscounted.Store(true)
		w.miscounts = true
		return "imports have more rows in error than there are", func() { w.witness.miscounted.Store(false) }, w.between(10*time.Second, mostMissing)
	}},
	{2, func(w *world) (string, func(), time.Duration) { return w.landLate() }},
	{2, func(w *world) (string, func(), time.Duration) { return w.deleteRecords() }},
	{1, func(w *world) (string, func(), time.Duration) { return w.resetOffsets() }},
	{1, func(w *world) (string, func(), time.Duration) { return w.expireGroups() }},
	{3, func(w *world) (string, func(), time.Duration) { return w.recreateTopic() }},
	{4, func(w *world) (string, func(), time.Duration) { return w.commitInPart() }},
	{4, func(w *world) (string, func(), time.Duration) { return w.takeBack(w.anyTable()) }},
	{4, func(w *world) (string, func(), time.Duration) { return w.slowNetwork() }},
	{3, func(w *world) (string, func(), time.Duration) { return w.sendLate(w.anyTable()) }},
	{3, func(w *world) (string, func(), time.Duration) { return w.thereAndBack(w.anyTable()) }},
}

// outputFiles is the number of that operation in the service's document.
const outputFiles = 12

// mostMissing is how long output files may be missing: less than the time after which
// a mapping halts.
const mostMissing = 8 * time.Minute

// loseOutputs has the output files of an import be missing, or name no rows.
func (w *world) loseOutputs() (string, func(), time.Duration) {
	answer := pick(w.rnd, sandbox.Status(404), sandbox.Status(503), sandbox.Text(200, ""), sandbox.Text(200, "note,reason\n"))
	if t := pick(w.rnd, w.plan.tables...); !t.byCall() && w.importerOf(t) == nil {
		return "", nil, 0
	}
	time.Sleep(max(0, w.plan.processing-mostMissing/2)) // it is about to end
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: outputFiles}, Answer: answer})
	return "output files are missing or name no rows", w.service.ClearFaults, w.between(10*time.Second, mostMissing)
}

var reachName = map[reach]string{refused: "refused", silent: "silent", deaf: "its requests arrive, no answer does"}

// rollOut gives the members other routes, one after the other.
func (w *world) rollOut(steps int) (string, func(), time.Duration) {
	before := w.plan.lanes()
	w.plan.routes += steps
	w.say("other routes: version %d", w.plan.routes)
	for i, m := range w.members {
		if m.on {
			m.follow(w.rnd.IntN(2) == 0 && slices.Equal(before, w.plan.lanes()))
		}
		if i+1 < len(w.members) {
			time.Sleep(w.between(time.Second, 2*time.Minute))
		}
	}
	return "", nil, 0
}

func (w *world) addPartition() (string, func(), time.Duration) {
	t := pick(w.rnd, w.plan.tables...)
	w.mu.Lock()
	n := w.partitions[t.topic]
	w.mu.Unlock()
	if n >= 8 {
		return "", nil, 0
	}
	if _, err := w.admin.CreatePartitions(context.Background(), 1, t.topic); err != nil {
		w.fail("add a partition: %v", err)
		return "", nil, 0
	}
	w.client.ForceMetadataRefresh()
	time.Sleep(time.Second)
	w.mu.Lock()
	w.partitions[t.topic] = n + 1
	w.mu.Unlock()
	return fmt.Sprintf("%s has %d partitions", t.topic, n+1), nil, 0
}

// pauseKnown is how soon a member that reaches the brokers knows of a pause, and calls
// that it had begun have ended.
const pauseKnown = 15*time.Second + timeout

// mostResumes is how often a paused mapping is to be resumed, every ten seconds.
const mostResumes = 360

// rests tells whether a member knows that a mapping is paused and has no import under
// way, which would end with its calls.
func (m *member) rests(mapping string) bool {
	if !m.on {
		return false
	}
	status := m.sink.Status().(observe.Status)
	i := slices.IndexFunc(status.Mappings, func(s observe.MappingStatus) bool { return s.Name == mapping })
	return i >= 0 && len(status.Mappings[i].Paused) > 0 && (status.Mappings[i].Batch == nil || status.Mappings[i].Batch.Import == nil)
}

// beforePause is how many events come just before a pause: where calls are scarce or slow,
// some of theirs are still to be made when it is known.
const beforePause = 40

// pause has a person pause a mapping by way of one member, and resume it by way of any.
func (w *world) pause() (string, func(), time.Duration) {
	t, by := pick(w.rnd, w.plan.tables...), w.some()
	if !by.on || w.rnd.IntN(2) == 0 && !w.bunch(context.Background(), beforePause, t) {
		return "", nil, 0
	}
	what, sure := " is paused", w.ask(by, "mappings", "/mappings/"+t.name+"/pause?reason=simulated")
	if !sure {
		what = " may be paused" // it may be on record without an answer
	}
	t.paused = true
	time.Sleep(pauseKnown + 3*w.plan.lookEvery)
	resting := slices.DeleteFunc(slices.Clone(w.members), func(m *member) bool { return !m.rests(t.name) })
	if t.uses(schemas.Batch) && len(resting) < len(w.members) {
		resting = nil // an import under way may move to who rests, and ends with its calls there
	}
	for _, m := range resting {
		w.witness.rests(m.process.name, t.name)
	}
	return t.name + what, func() {
		w.witness.goesOn(t.name)
		resumes := func(m *member) bool { return w.ask(m, "mappings", "/mappings/"+t.name+"/resume") }
		for tries := 0; t.paused && !slices.ContainsFunc(w.members, resumes) && (sure || tries < 60); tries++ {
			if tries == mostResumes {
				w.fail("%s was paused, and no member resumes it; the last one asked answers: %s", t.name, w.answer)
				break
			}
			for _, m := range w.members { // who does not reach the broker may know of no table to resume
				m.start()
				m.host.reachBroker()
			}
			time.Sleep(10 * time.Second)
		}
		t.paused = false
	}, w.between(10*time.Second, 20*time.Minute)
}

// importing reports whether an import of the member's is under way.
func (m *member) importing() bool {
	return m.on && slices.ContainsFunc(m.sink.Status().(observe.Status).Mappings, func(s observe.MappingStatus) bool {
		return s.Batch != nil && s.Batch.Import != nil
	})
}

// killAmidImport waits for a member with an import under way and kills it, at any of the
// import's steps.
func (w *world) killAmidImport() (string, func(), time.Duration) {
	for range 60 {
		for _, m := range w.members {
			if !m.importing() {
				continue
			}
			time.Sleep(time.Duration(w.rnd.Int64N(int64(w.plan.processing + time.Second))))
			m.kill(w.rnd.IntN(2) == 0)
			return "", m.start, w.between(time.Second, 10*time.Minute)
		}
		time.Sleep(w.between(100*time.Millisecond, 10*time.Second)) // an import may be short
	}
	return "", nil, 0
}

// takeSpool has a member's disk refuse for a time to open files.
func (w *world) takeSpool() (string, func(), time.Duration) {
	m := w.some()
	away := m.spool + ".away"
	if !m.on || os.Rename(m.spool, away) != nil || os.WriteFile(m.spool, nil, 0o600) != nil { // no folder: nothing is made in it
		return "", nil, 0
	}
	w.say("the disk of %s takes no files", m.process.name)
	files, _ := os.ReadDir(away) // none is no files
	for _, f := range files {
		w.unremovable[f.Name()] = true
	}
	time.Sleep(w.between(time.Second, 5*time.Minute))
	if err := errors.Join(os.Remove(m.spool), os.Rename(away, m.spool)); err != nil {
		w.fail("give the spool back: %v", err)
	}
	return "the disk of " + m.process.name + " is well", nil, 0
}

// landLate has calls be given up that the service carries out all the same. Nobody comes
// or goes meanwhile: what a process has sent that is gone nobody can reckon with. Nor can
// a lane reckon with the calls of a key that both write.
func (w *world) landLate() (string, func(), time.Duration) {
	t := pick(w.rnd, w.plan.tables...)
	if !t.byCall() && !t.auto() {
		return "", nil, 0
	}
	time.Sleep(time.Minute)
	w.say("calls for %s land late", t.name)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Table: t.name, Probability: .2}, Late: w.between(timeout+time.Second, 2*timeout)})
	time.Sleep(w.between(time.Minute, 10*time.Minute))
	w.service.ClearFaults()
	time.Sleep(2 * time.Minute)
	return "calls land in time", nil, 0
}

// deleteRecords deletes records that a lane has confirmed. Where there are two lanes, one
// of them may have to read again what the other one has confirmed.
func (w *world) deleteRecords() (string, func(), time.Duration) {
	t := pick(w.rnd, w.plan.tables...)
	if t.lanes == "both" {
		return "", nil, 0
	}
	committed, err := w.admin.FetchOffsets(context.Background(), t.group())
	if err != nil {
		return "", nil, 0
	}
	below := kadm.Offsets{}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Topic == t.topic && o.At > 0 {
			below.AddOffset(o.Topic, o.Partition, o.At, -1)
		}
	})
	if _, err := w.admin.DeleteRecords(context.Background(), below); err != nil {
		w.fail("delete records: %v", err)
	}
	return t.topic + " loses the records that are confirmed", nil, 0
}

// resetOffsets has all members stop and a table's records be read again from the first.
// What the group had on record is gone with that.
func (w *world) resetOffsets() (string, func(), time.Duration) {
	t := pick(w.rnd, w.plan.tables...)
	if t.lanes == "both" {
		return "", nil, 0
	}
	w.whileStopped(func() error {
		first, err := w.admin.ListStartOffsets(context.Background(), t.topic)
		if err == nil {
			_, err = w.admin.CommitOffsets(context.Background(), t.group(), first.Offsets())
		}
		return err
	}, t)
	return t.topic + " is read again from its start", nil, 0
}

// expireGroups has all members stop for so long that the brokers forget their groups.
func (w *world) expireGroups() (string, func(), time.Duration) {
	var groups []string
	for _, t := range w.plan.tables {
		if t.lanes == "both" {
			return "", nil, 0
		}
		groups = append(groups, t.group())
	}
	w.whileStopped(func() error {
		_, err := w.admin.DeleteGroups(context.Background(), groups...)
		return err
	}, w.plan.tables...)
	return "the groups have expired", nil, 0
}

// allConfirmed waits until all records of the table are confirmed. It reports false if they are not
// within ten minutes.
func (w *world) allConfirmed(ctx context.Context, t *table) bool {
	for range 60 {
		if n, _ := w.lag(ctx, t); n == 0 {
			return true
		}
		time.Sleep(10 * time.Second)
	}
	n, _ := w.lag(ctx, t)
	return n == 0
}

// recreateTopic has a topic be deleted, all of which is confirmed, and created again.
func (w *world) recreateTopic() (string, func(), time.Duration) {
	t, ctx := pick(w.rnd, w.plan.tables...), context.Background()
	w.feeding <- struct{}{}
	defer func() { <-w.feeding }()
	if !w.allConfirmed(ctx, t) {
		return "", nil, 0
	}
	letters, err := w.deadLetters(ctx)
	if err == nil {
		err = w.broker.DeleteTopic(t.topic)
	}
	w.say("%s is deleted", t.topic)
	time.Sleep(w.between(100*time.Millisecond, 3*time.Second)) // meanwhile the fake broker answers each fetch at once
	if err = errors.Join(err, w.broker.CreateTopic(t.topic, w.partitions[t.topic], nil)); err != nil {
		w.fail("create a topic again: %v", err)
	}
	t.letters = append(t.letters, len(letters))
	w.client.PurgeTopicsFromProducing(t.topic)
	return t.topic + " is created again", nil, 0
}

// whileStopped does something that has the tables' records read again from the first while no
// member runs. What the groups had on record of them is gone with that.
func (w *world) whileStopped(do func() error, of ...*table) {
	for _, m := range w.members {
		m.end()
	}
	time.Sleep(max(time.Minute, 2*w.plan.session) + 2*w.plan.processing) // for the members that were killed, and imports under way
	if err := do(); err != nil {
		w.fail("have records read again: %v", err)
	}
	for _, t := range of {
		t.repeated, t.paused = true, false
		w.witness.goesOn(t.name)
	}
	for _, m := range w.members {
		m.start()
	}
}
