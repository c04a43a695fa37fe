package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// looked are the states of orders as one look judges them: op, key and cells.
func (w *world) looked(which replay.Looking, change func(*replay.Backfill), during func([]replay.State)) (judged []string, report replay.BackfillReport, err error) {
	w.t.Helper()
	w.with(func(r *replay.Replay) {
		b := &replay.Backfill{Replay: r, BackfillConfig: replay.BackfillConfig{Asked: "repair", Since: time.Unix(0, 0), Keys: 1 << 20}}
		for _, m := range w.router.Mappings() {
			if m.Name == custom {
				b.Mapping = m
			}
		}
		if change != nil {
			change(b)
		}
		report, err = b.Look(w.t.Context(), which, func(_ context.Context, states []replay.State) (func(int), error) {
			if during != nil {
				during(states)
			}
			return func(i int) { judged = append(judged, said(&states[i].Write)) }, nil
		})
	})
	slices.Sort(judged)
	return judged, report, err
}

func said(w *schemas.Write) string {
	text := w.Op.String() + " " + w.Key
	for _, c := range w.Cells {
		text += fmt.Sprintf(" %s=%s", c.Name, c.Value.Text())
	}
	return text
}

// An upsert may keep what it does not name, or clear it.
func TestLookTellsWhatIsCertain(t *testing.T) {
	w := newWorld(t)
	r := w.produce(order("patched", "upsert", `{"a":1,"b":1}`), order("patched", "patch", `{"b":2}`),
		order("upserted", "upsert", `{"a":1,"b":1}`), order("upserted", "upsert", `{"b":2}`),
		order("deleted", "upsert", `{"a":1}`), order("deleted", "delete", `{}`), order("deleted", "patch", `{"a":2}`),
		order("created", "delete", `{}`), order("created", "create", `{"a":1}`),
		order("refused", "upsert", `{"a":1}`), order("refused", "upsert", `{"a":2}`))
	w.deadLetter(r[10], refused)
	w.caughtUp()
	got, report, err := w.looked(replay.Looking{}, nil, nil)
	want := []string{"delete deleted", "upsert patched a=1 b=2", "upsert created a=1", "upsert refused a=1", "upsert upserted b=2"}
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) || report.DeadLetters != 1 || !report.Ended || len(w.calls) > 0 {
		t.Errorf("got %q, %+v, %v, want %q and no calls", got, report, err, want)
	}
}

func TestLookLeavesOutWhatNewerRecordsChange(t *testing.T) {
	w := withRecords(t, order("unconfirmed", "upsert", `{"a":1}`), order("meanwhile", "upsert", `{"a":1}`), order("alone", "upsert", `{"a":1}`))
	w.produce(order("unconfirmed", "patch", `{"a":2}`))
	got, report, err := w.looked(replay.Looking{}, nil, func(states []replay.State) {
		if len(states) != 2 {
			t.Errorf("looked at %d keys, want 2 whose states are confirmed", len(states))
		}
		w.produce(order("meanwhile", "delete", `{}`))
	})
	if want := []string{"upsert alone a=1"}; err != nil || !slices.Equal(got, want) || report.Newer != 2 {
		t.Errorf("got %q, %+v, %v, want %q", got, report, err, want)
	}
}

// A mapping with calls alone shares a topic with one whose rows wait for a file.
func TestLookWaitsForNoLaneThatOtherMappingsTake(t *testing.T) {
	for name, c := range map[string]struct {
		since   int64 // the mapping's routes count from there on; -1: no ledger says so
		mapping string
		want    []string
	}{
		"from the beginning":               {0, "called", []string{"upsert a a=1", "upsert b a=1", "upsert c a=1"}},
		"since before what waits":          {2, "called", []string{"upsert a a=1", "upsert b a=1", "upsert c a=1"}},
		"since what waits":                 {3, "called", []string{"upsert a a=1"}},
		"nobody knows":                     {-1, "called", []string{"upsert a a=1"}},
		"the mapping whose rows wait":      {0, "filed", []string{"upsert f file=1"}},
		"the one that waits, nobody knows": {-1, "filed", []string{"upsert f file=1"}},
	} {
		w := newWorld(t)
		rs := []*kgo.Record{order("a", "upsert", `{"a":1}`), order("f", "upsert", `{"file":1}`), order("b", "upsert", `{"a":1}`), order("g", "upsert", `{"file":1}`), order("c", "upsert", `{"a":1}`)}
		for _, r := range rs {
			r.Topic = divided
		}
		w.produce(rs...)
		routes := ack.Routes{Changed: 1000, Shared: true}
		for _, m := range w.router.TopicMappings(divided) {
			routes.Epochs = append(routes.Epochs, ack.Epoch{Fingerprint: m.Routes, From: c.since})
		}
		for lane, offset := range map[schemas.Lane]int64{schemas.Immediate: 5, schemas.Batch: 2} {
			commit := cluster.Commit{Offset: offset}
			if c.since >= 0 {
				var err error
				if commit.Metadata, _, err = (&ack.Ledger{Routes: routes}).Encode(offset, 4096); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.reader.Commit(t.Context(), lane.Group("sink"), map[cluster.TopicPartition]cluster.Commit{{Topic: divided}: commit}); err != nil {
				t.Fatal(err)
			}
		}
		got, report, err := w.looked(replay.Looking{}, func(b *replay.Backfill) {
			b.Mapping = w.router.Mappings()[slices.IndexFunc(w.router.Mappings(), func(m *router.Compiled) bool { return m.Name == c.mapping })]
		}, nil)
		if err != nil || !slices.Equal(got, c.want) || report.Records != int64(len(c.want)) {
			t.Errorf("%s: got %q, %+v, %v, want %q", name, got, report, err, c.want)
		}
	}
}

func TestLookAtASampleTakesKeysByChance(t *testing.T) {
	w := newWorld(t)
	const keys, sample = 400, 20
	for i := range keys {
		w.produce(order(fmt.Sprintf("o%d", i), "upsert", `{"a":0}`), order(fmt.Sprintf("o%d", i), "patch", fmt.Sprintf(`{"a":%d}`, i)))
	}
	w.caughtUp()
	var all []string
	for seed := range 5 {
		got, report, err := w.looked(replay.Looking{Most: sample, Seed: fmt.Sprint(seed)}, nil, nil)
		if err != nil || len(got) != sample || report.Keys < keys/2 || report.Keys > 2*keys || !report.About {
			t.Fatalf("got %d keys, %+v, %v, want %d of about %d", len(got), report, err, sample, keys)
		}
		for _, state := range got {
			var key, value int
			if _, err := fmt.Sscanf(state, "upsert o%d a=%d", &key, &value); err != nil || key != value {
				t.Errorf("got %s, want all of the key's records in it", state)
			}
		}
		all = append(all, got...)
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n < 4*sample {
		t.Errorf("got %d different keys in 5 samples of %d, want nearly all different", n, sample)
	}
	if got, report, err := w.looked(replay.Looking{}, func(b *replay.Backfill) { b.Keys = 20 << 10 }, nil); err != nil || len(got) != keys || !report.About {
		t.Errorf("all, in parts: got %d keys, %+v, %v, want %d", len(got), report, err, keys)
	}
}

// A repair sends the keys that it is told of. One that did not end is no obstacle to the next,
// which waits until none of its calls can be applied any more; another backfill is.
func TestRepairIsOfTheKeysThatDiffer(t *testing.T) {
	w := withRecords(t, order("C", "upsert", `{"a":1}`), order("D", "upsert", `{"a":1}`))
	repair := func(b *replay.Backfill) {
		b.Asked, b.Since, b.Only = "repair", time.Unix(0, 0), map[string]bool{"C": true}
	}
	dies := func(change func(*replay.Backfill)) {
		ctx, crash := context.WithCancel(t.Context())
		w.before = func(*schemas.Write) error { crash(); return no{503, true} }
		if _, err := w.backfill(ctx, custom, change); !errors.Is(err, context.Canceled) {
			t.Fatalf("the run that dies: got %v", err)
		}
		w.before, w.calls = nil, nil
	}
	dies(repair)
	if _, _, err := w.looked(replay.Looking{Repair: true}, nil, func([]replay.State) {
		if len(w.waits) != 1 {
			t.Errorf("looked after %d waits, want one for the calls of the run that died", len(w.waits))
		}
	}); err != nil {
		t.Errorf("look: got %v", err)
	}
	report := w.filled(custom, repair)
	// The service may remember the tries of the run that died: the state is sent once more then.
	if want := []string{"upsert C a=1"}; !slices.Equal(slices.Compact(slices.Clone(w.calls)), want) || report.Sent != 1 || report.Resumed {
		t.Errorf("got calls %q and %+v, want %q", w.calls, report, want)
	}
	dies(nil)
	if _, _, err := w.looked(replay.Looking{Repair: true}, nil, nil); !errors.Is(err, replay.ErrUnfinished) {
		t.Errorf("beside an unfinished backfill: got %v, want it refused", err)
	}
}
