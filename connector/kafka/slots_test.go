package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

func (b *broker) wantSlots(when string, want int) {
	b.t.Helper()
	_, l := b.ledger("a", 0)
	got := 0
	for _, s := range l.Slots {
		got += len(s.Used)
	}
	if got != want {
		b.t.Errorf("slots on record %s: got %+v, want %d", when, l.Slots, want)
	}
}

func intent(attempt int) ack.Import {
	return ack.Import{State: ack.Intended, Table: "customers", File: "customers-1.csv.gz", Part: 1, Parts: 1, Attempt: attempt}
}

func TestIntentTakesASlotOncePerAttempt(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	claims := []*kafka.Claim{m.assignment("a", 0).Claim(0)}
	running := intent(1)
	running.State, running.Execution = ack.Running, "4711"
	for _, step := range []struct {
		what  string
		im    ack.Import
		slots int
	}{
		{"after the intent", intent(1), 1},
		{"after the same intent again", intent(1), 1},
		{"after the trigger", running, 1},
		{"after a second attempt", intent(2), 2},
	} {
		m.records(step.im, home, claims...)
		b.wantSlots(step.what, step.slots)
	}
}

// Yesterday's try was refused, and the file is sent today.
func TestTryOfTheNextDayTakesASlotOfThatDay(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	claims := []*kafka.Claim{m.assignment("a", 0).Claim(0)}
	evening := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	for i, at := range []time.Time{evening, evening.Add(time.Minute), evening.Add(2 * time.Hour), evening.Add(3 * time.Hour)} {
		of := []kafka.SlotPartition{{Topic: "a", Table: "customers", At: []time.Time{at}}}
		m.records(intent(1), of, claims...)
		b.wantSlots(at.String(), 1+i/2)
	}
}

// An import that was intended before midnight, and whose execution is named after it, may count
// on either day.
func TestImportOverMidnightTakesASlotOfBothDays(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	claims := []*kafka.Claim{m.assignment("a", 0).Claim(0)}
	evening := time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC)
	running := intent(1)
	running.State, running.Execution = ack.Running, "4711"
	for _, step := range []struct {
		im    ack.Import
		at    time.Time
		slots int
	}{
		{intent(1), evening, 1},
		{running, evening.Add(2 * time.Minute), 2},
		{running, evening.Add(3 * time.Minute), 2}, // a commit may be repeated
	} {
		of := []kafka.SlotPartition{{Topic: "a", Table: "customers", At: []time.Time{step.at}}}
		m.records(step.im, of, claims...)
		b.wantSlots(step.at.String(), step.slots)
		if !m.HasSlot("a", "customers", intent(1).File, 1, step.at) || m.HasSlot("a", "customers", intent(1).File, 2, step.at) {
			t.Errorf("at %v: want a slot of the first attempt alone", step.at)
		}
	}
}

// An attempt that was begun before midnight, and whose answer was lost, may have been accepted after
// it: the next one, of a day on which it has no slot, takes one for it, too. So it does where a
// former owner began it.
func TestLostAnswerOverMidnightTakesASlotOfTheNewDay(t *testing.T) {
	t.Parallel()
	evening := time.Date(2026, 11, 20, 23, 59, 58, 0, time.UTC)
	morning := evening.Add(5 * time.Second)
	running := intent(1)
	running.State, running.Execution = ack.Running, "4711"
	of := func(at time.Time) []kafka.SlotPartition {
		return []kafka.SlotPartition{{Topic: "a", Table: "customers", At: []time.Time{at}}}
	}
	for name, tc := range map[string]struct {
		before *ack.Import // the step between the attempts; nil: none
		at     time.Time
		owner  bool // another one makes the second attempt
		want   int
	}{
		"lost over midnight":                  {at: morning, want: 3},
		"lost on the same day":                {at: evening.Add(time.Second), want: 2},
		"named before midnight":               {before: &running, at: morning, want: 2},
		"lost over midnight by another owner": {at: morning, owner: true, want: 3},
		"lost on the same day by another one": {at: evening.Add(time.Second), owner: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "a")
			m := b.join(autoLane(t))
			b.awaitCommit("a", 0, 0)
			record := func(im ack.Import, at time.Time) {
				t.Helper()
				if err := m.RecordImport(t.Context(), im, of(at), []*kafka.Claim{m.assignment("a", 0).Claim(0)}); err != nil {
					t.Fatal(err)
				}
			}
			record(intent(1), evening)
			if tc.before != nil {
				record(*tc.before, evening.Add(time.Second))
			}
			b.wantSlots("after the first attempt", 1)
			second := intent(2)
			if tc.owner {
				second.File = "customers-2.csv.gz" // built again
				m.stop()
				m = b.join(autoLane(t))
				eventually(t, "the ledger is read", func() (bool, any) { return len(m.Partitions()) == 1 && m.Joined(), nil })
			}
			for range 2 { // a commit may be repeated
				record(second, tc.at)
				b.wantSlots("after the second attempt", tc.want)
			}
		})
	}
}

// The broker answers REQUEST_TIMED_OUT after it has applied the commit.
func TestIntentWhoseCommitFailsIsAnErrorAndTakesOneSlotOnceRepeated(t *testing.T) {
	t.Parallel()
	for refusal, slots := range map[*kerr.Error]int{kerr.UnknownServerError: 0, kerr.RequestTimedOut: 1} {
		t.Run(refusal.Message, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "a")
			m := b.join(autoLane(t), func(c *kafka.Config) { c.CommitEvery = time.Hour })
			eventually(t, "the ledger is read", func() (bool, any) { return len(m.Partitions()) == 1 && m.Joined(), nil })
			claims := []*kafka.Claim{m.assignment("a", 0).Claim(0)}
			b.awaitCommit("a", 0, 0) // the one that says which routes count
			b.refuseCommits(refusal, 1)
			if err := m.RecordImport(t.Context(), intent(1), home, claims); !errors.Is(err, refusal) {
				t.Errorf("intent: got %v, want %v", err, refusal)
			}
			b.wantSlots("after the error", slots)
			m.records(intent(1), home, claims...)
			b.wantSlots("after the same intent again", 1)
		})
	}
}

func TestSlotsSurviveARestart(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	first := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	first.records(intent(1), home, first.assignment("a", 0).Claim(0))
	first.FillSlots("a", "customers", slices.Repeat([]time.Time{time.Now()}, 3)) // the service said so; the next commit has them
	first.stop()
	b.wantSlots("after the first member", 4)
	if _, ok := first.Slots("a", "customers"); ok {
		t.Error("slots as a member without the partition sees them: got some, want none")
	}

	second := b.join(autoLane(t))
	eventually(t, "the second member has read the ledger", func() (bool, any) { return len(second.Partitions()) == 1 && second.Joined(), nil })
	if used, ok := second.Slots("a", "customers"); !ok || len(used) != 4 || time.Since(used[3]) > time.Minute || time.Since(used[0]) > 16*time.Minute {
		t.Errorf("slots used: got %v %v, want four, the last of this minute, the others of this quarter of an hour", used, ok)
	}
	if used, ok := second.Slots("a", "orders"); !ok || len(used) != 0 {
		t.Errorf("slots of another table: got %v %v, want none used", used, ok)
	}
	if _, ok := second.Slots("b", "customers"); ok {
		t.Error("slots on a topic that is not ours: got some, want none")
	}
	second.records(intent(2), home, second.assignment("a", 0).Adopted()[0].Claim)
	b.wantSlots("after the second attempt", 5)
}

// The file of a bundle is an import of several tables, whose slots are on record
// with their own topics.
func TestIntentTakesASlotOfEveryTableInOneCommit(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a", "b")
	m := b.join(autoLane(t))
	eventually(t, "all ledgers are read", func() (bool, any) { return len(m.Partitions()) == 4 && m.Joined(), nil })
	homes := append(slices.Clone(home), kafka.SlotPartition{Topic: "b", Table: "orders", At: home[0].At})
	claims := []*kafka.Claim{m.assignment("b", 1).Claim(0)}
	running := intent(1)
	running.State, running.Execution = ack.Running, "4711"
	for _, step := range []struct {
		what  string
		im    ack.Import
		slots int
	}{{"after the intent", intent(1), 1}, {"after the trigger", running, 1}, {"after a second attempt", intent(2), 2}} {
		m.records(step.im, homes, claims...)
		for _, h := range homes {
			_, l := b.ledger(h.Topic, 0)
			if len(l.Slots) != 1 || l.Slots[0].Table != h.Table || len(l.Slots[0].Used) != step.slots {
				t.Errorf("%s: got slots %+v on record at %s, want %d of %s", step.what, l.Slots, h.Topic, step.slots, h.Table)
			}
		}
		if _, l := b.ledger("b", 1); len(l.Imports) != 1 || l.Imports[0].Table != "customers" {
			t.Errorf("%s: got imports %+v, want the one, known by its first table", step.what, l.Imports)
		}
	}
	away := append(slices.Clone(homes), kafka.SlotPartition{Topic: "elsewhere", Table: "visits"})
	if err := m.RecordImport(t.Context(), intent(3), away, claims); !errors.Is(err, kafka.ErrFenced) {
		t.Errorf("with a table of somebody else: got %v, want ErrFenced", err)
	}
	if used, ok := m.Slots("a", "customers"); !ok || len(used) != 2 {
		t.Errorf("slots after that: got %v %v, want the two of before: nothing was sent", used, ok)
	}
}

func TestIntentWithoutTheHomePartitionIsFenced(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	first := b.join(autoLane(t))
	b.awaitCommit("a", 1, 0)
	second := b.join(autoLane(t))
	b.awaitMembers(2)
	eventually(t, "each has a partition", func() (bool, any) {
		return len(first.Partitions()) == 1 && len(second.Partitions()) == 1 && first.Joined() && second.Joined(), nil
	})
	away := first
	if first.Partitions()[0].ID == 0 {
		away = second
	}
	claim := away.assignment("a", 1).Claim(0)
	if err := away.RecordImport(t.Context(), intent(1), home, []*kafka.Claim{claim}); !errors.Is(err, kafka.ErrFenced) {
		t.Errorf("intent of a member without the home partition: got %v, want ErrFenced", err)
	}
	b.awaitCommit("a", 1, 0)
	if _, l := b.ledger("a", 1); len(l.Imports) != 0 {
		t.Errorf("imports on the ledger: got %+v, want none", l.Imports)
	}
}

// Else the executions of imports that have begun could not be recorded, and would be repeated.
func TestIntentWaitsForRoomInTheLedger(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	p := m.assignment("a", 0)
	type table struct {
		im    ack.Import
		home  []kafka.SlotPartition
		claim []*kafka.Claim
	}
	var begun []table
	var waits table
	for i := 0; waits.im.Table == ""; i++ {
		name := fmt.Sprintf("profile/customers_of_country_%02d", i)
		one := table{intent(1), []kafka.SlotPartition{{Topic: "a", Table: name, At: home[0].At}}, []*kafka.Claim{p.Claim(0)}}
		one.im.Table, one.im.Mode = name, "CREATE_OR_UPDATE"
		switch err := m.RecordImport(t.Context(), one.im, one.home, one.claim); {
		case err == nil:
			begun = append(begun, one)
		case errors.Is(err, kafka.ErrNoRoom):
			waits = one
		default:
			t.Fatalf("intent of %s: %v", name, err)
		}
	}
	if tables, _ := p.LacksRoom(); !slices.Equal(tables, []string{waits.im.Table}) || len(begun) < 10 {
		t.Errorf("after %d imports: got no room for %v, want none for %s", len(begun), tables, waits.im.Table)
	}
	if used, _ := m.Slots("a", waits.im.Table); len(used) != 0 {
		t.Errorf("slots of the one that waits: got %v, want none", used)
	}
	for _, one := range begun {
		one.im.State, one.im.Execution = ack.Running, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
		m.records(one.im, one.home, one.claim...)
	}
	m.confirms(begun[0].im.Table, begun[0].claim...)
	m.records(waits.im, waits.home, waits.claim...)
	if tables, _ := p.LacksRoom(); len(tables) != 0 {
		t.Errorf("then: got no room for %v, want room", tables)
	}
}

// A day's uses do not become fewer by waiting.
func TestUsedSlotsDoNotKeepAPartitionFromBeingRead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, since := range map[string]time.Duration{"of today": 0, "forgotten": 51 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "a")
			var l ack.Ledger
			for i := 0; l.Lasting(0) < ack.MetadataLimit*4/5; i++ {
				l.Slots = append(l.Slots, ack.Slots{Table: fmt.Sprintf("profile/customers_of_country_%02d", i), Used: []int64{now.Add(-since).Unix()}})
			}
			b.left(0, 0, l)
			b.produce("a", 0, 7)
			m := b.join(autoLane(t), func(c *kafka.Config) { c.Times = func() []time.Time { return []time.Time{now} } })
			m.awaitOffsets("a", 0, upTo(0, 7)...)
			b.awaitCommit("a", 0, 7)
			if _, got := b.ledger("a", 0); (len(got.Slots) == 0) != (since > 0) {
				t.Errorf("slots: got those of %d tables of %d", len(got.Slots), len(l.Slots))
			}
			b.produce("a", 0, 7)
			m.awaitOffsets("a", 0, upTo(0, 14)...)
		})
	}
}

// What was counted on another topic's partition counts where the imports are counted from now on.
func TestSlotsAreCountedOnWhenTheTablesTopicsChange(t *testing.T) {
	t.Parallel()
	for name, topics := range map[string][]string{"another comes first": {"b", "a"}, "another one instead": {"b"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "a", "b")
			counted := func(first string, topics ...string) func(*kafka.Config) {
				return func(c *kafka.Config) {
					c.Topics, c.Counted = topics, func(topic string) []string {
						if topic == first {
							return []string{"customers"}
						}
						return nil
					}
				}
			}
			m := b.join(autoLane(t), counted("a", "a"))
			b.awaitCommit("a", 0, 0)
			claims := []*kafka.Claim{m.assignment("a", 0).Claim(0)}
			for attempt := range 3 {
				m.records(intent(attempt+1), home, claims...)
			}
			resume, err := m.Suspend(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cfg := kafka.Config{}
			counted("b", topics...)(&cfg)
			resume(cfg.Subscription, autoLane(t))
			want := func(when string, s *kafka.Source, want int) {
				t.Helper()
				eventually(t, when+": the table's slots are known", func() (bool, any) { _, ok := s.Slots("b", "customers"); return ok, nil })
				if used, _ := s.Slots("b", "customers"); len(used) != want {
					t.Errorf("%s: got %v used, want %d", when, used, want)
				}
			}
			want("reloaded", m.Source, 3)
			b.awaitCommit("b", 0, 0)
			m.FillSlots("b", "customers", home[0].At)
			m.stop()
			want("restarted", b.join(autoLane(t), counted("b", topics...)).Source, 4)
		})
	}
}
