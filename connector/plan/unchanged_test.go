package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Each event is "SECOND KEY STATUS"; with /PARTITION behind the key it is not of partition 0. A
// status of ! has no valid value, ? is not a record that says anything, - is a tombstone.
func TestCallsThatRepeatThemselvesAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		events string
		op     string
		keep   time.Duration
		calls  int64
		saved  int64
	}{
		"a repetition":                       {"0 a NEW, 5 a NEW, 10 a PAID, 15 a PAID", "upsert", 24 * time.Hour, 2, 2},
		"back to what was before":            {"0 a NEW, 5 a PAID, 10 a NEW", "upsert", 24 * time.Hour, 3, 0},
		"another key":                        {"0 a NEW, 5 b NEW", "upsert", 24 * time.Hour, 2, 0},
		"another partition":                  {"0 a NEW, 5 a/1 NEW, 10 a NEW", "upsert", 24 * time.Hour, 3, 0},
		"too long ago":                       {"0 a NEW, 50 a NEW, 61 a NEW, 70 a NEW", "upsert", time.Minute, 2, 2},
		"creates":                            {"0 a NEW, 5 a NEW", "create", 24 * time.Hour, 2, 0},
		"deletes":                            {"0 a NEW, 5 a -, 10 a -, 15 a NEW", "upsert", 24 * time.Hour, 3, 1},
		"merged, and what they say together": {"0 a NEW, 0 a PAID, 5 a PAID", "upsert", 24 * time.Hour, 1, 1},
		"patches merged":                     {"0 a NEW, 0 a PAID, 5 a PAID, 10 a PAID", "patch", 24 * time.Hour, 2, 1},
		"behind one that is skipped":         {"0 a NEW, 5 a NEW, 5 a PAID", "upsert", 24 * time.Hour, 2, 0},
		"a dead letter of the key":           {"0 a NEW, 5 a !, 10 a NEW, 15 a NEW", "upsert", 24 * time.Hour, 2, 1},
		"a dead letter of another key":       {"0 a NEW, 5 b !, 10 a NEW", "upsert", 24 * time.Hour, 1, 1},
		"what cannot be decoded":             {"0 a NEW, 0 b/1 NEW, 5 a ?, 10 a NEW, 10 b/1 NEW", "upsert", 24 * time.Hour, 3, 1},
	} {
		for _, unchanged := range []string{"", "skip"} {
			got := callsOf(t, c.events, router.Mapping{Op: c.op, Unchanged: unchanged, UnchangedFor: c.keep}).Calls
			want := Calls{Calls: c.calls + c.saved, CouldSkip: c.saved}
			if unchanged != "" {
				want = Calls{Calls: c.calls, Unchanged: c.saved}
			}
			if got.Calls != want.Calls || got.CouldSkip != want.CouldSkip || got.Unchanged != want.Unchanged {
				t.Errorf("%s, unchanged: %q: got %d calls, %d could skip, %d not made, want %d, %d, %d",
					name, unchanged, got.Calls, got.CouldSkip, got.Unchanged, want.Calls, want.CouldSkip, want.Unchanged)
			}
		}
	}
}

// Such an id cannot stand in an address: the sink sends nothing, and makes a dead letter.
func TestCallsThatNoAddressCanNameAreDeadLetters(t *testing.T) {
	for op, dead := range map[string]int64{"patch": 2, "merge": 2, "delete": 2, "upsert": 0, "create": 0} {
		m := callsOf(t, "0 . NEW, 5 .. NEW, 10 a NEW", router.Mapping{Op: op})
		if m.DeadLetters != dead || m.Calls.Calls != 3-dead {
			t.Errorf("%s: got %d dead letters and %d calls, want %d and %d", op, m.DeadLetters, m.Calls.Calls, dead, 3-dead)
		}
	}
}

func TestRepetitionsAreNotCountedWhereSkipIsRefused(t *testing.T) {
	m := callsOf(t, "0 a NEW, 5 a NEW", router.Mapping{Topics: []string{"orders", "more"}})
	if c := m.Calls; c.Calls != 2 || c.CouldSkip != 0 {
		t.Errorf("two topics: got %+v, want 2 calls and none that could be skipped", *c)
	}
}

func TestLanesAreComparedWithoutTheCallsThatAreSkipped(t *testing.T) {
	const events = "0 a NEW, 60 a NEW, 120 a NEW, 180 a PAID, 240 a NEW"
	for unchanged, want := range map[string]int64{"": 5, "skip": 3} {
		m := callsOf(t, events, router.Mapping{Unchanged: unchanged, UnchangedFor: time.Hour})
		if got := m.Lanes.choice(immediate).Calls; got != want || got != m.Calls.Calls {
			t.Errorf("unchanged: %q: got %d calls of the lane and %d of the mapping, want %d", unchanged, got, m.Calls.Calls, want)
		}
	}
}

func TestKeysForWhichThereIsNoMemoryAreTold(t *testing.T) {
	limits := Limits{Unchanged: 2 * bytesPerKey}
	m := callsWithin(t, limits, "0 a NEW, 1 b NEW, 2 c NEW, 3 a NEW", router.Mapping{UnchangedFor: time.Hour})
	if m.Calls.Forgotten != 1 {
		t.Errorf("got %d keys without room, want 1 of three", m.Calls.Forgotten)
	}
}

func callsOf(t *testing.T, events string, m router.Mapping) Mapping {
	t.Helper()
	return callsWithin(t, Limits{Unchanged: 1 << 20}, events, m)
}

func callsWithin(t *testing.T, limits Limits, events string, m router.Mapping) Mapping {
	t.Helper()
	m.Name, m.CustomTable, m.Key = "orders", "orders", "businessKey"
	m.Routes = []router.Route{{Lane: immediate}}
	m.Fields = []router.Field{{From: "id", To: "businessKey"}, {From: "status", To: "status", As: "string"}, {From: "n", To: "n", As: "number"}}
	if m.Topics == nil {
		m.Topics = []string{"orders"}
	}
	r, problems := router.Compile([]router.Mapping{m})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p, err := New(limits, r.Mappings(), func(*router.Compiled) (*spool.Preview, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	for event := range strings.SplitSeq(events, ", ") {
		var second int64
		var key, status string
		if _, err := fmt.Sscan(event, &second, &key, &status); err != nil {
			t.Fatal(event, err)
		}
		record := router.Record{Topic: "orders", Timestamp: time.Unix(midnight*60+second, 0)}
		if k, of, found := strings.Cut(key, "/"); found {
			key, record.Partition = k, int32(of[0]-'0')
		}
		value := fmt.Sprintf(`{"id":%q,"status":%q}`, key, status)
		switch status {
		case "?":
			p.Undecodable(&record, fmt.Errorf("nonsense"))
			continue
		case "!":
			value = fmt.Sprintf(`{"id":%q,"n":"no number"}`, key)
		case "-":
			value, record.Tombstone = "", true
		}
		record.Key = []byte(key)
		if value != "" {
			if record.Value, err = schemas.NewJSON().Decode([]byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		p.Add(&record, r.Route(nil, &record))
	}
	report, err := p.Report(nil, func(*schemas.Write) (Request, error) { return Request{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return report.Mappings[0]
}
