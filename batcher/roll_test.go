package batcher

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/schemas"
)

func TestAgeRollsWithoutNewRecords(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.hold = "trigger"
		w.start(testMapping())
		time.Sleep(30 * time.Minute)
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour - time.Second)
		w.said()
		time.Sleep(time.Second)
		w.said(`1h30m0s intend upsert 1/1 attempt 1 "" holds 100-100`, `1h30m0s trigger is held`)
	})
}

func TestRowsRollCountsDistinctKeys(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.hold = "intend"
		m := testMapping()
		m.Roll.Rows = 3
		w.start(m)
		for range 10 {
			w.append(write(schemas.Upsert, "1"), write(schemas.Upsert, "2"))
		}
		w.said()
		w.append(write(schemas.Upsert, "3"))
		w.said("0s intend is held")
	})
}

func TestBytesRoll(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.hold = "intend"
		m := testMapping()
		m.Roll.Bytes = 1000
		w.start(m)
		w.append(write(schemas.Upsert, "1", "a", strings.Repeat("x", 600)))
		w.said()
		w.append(write(schemas.Upsert, "2", "a", strings.Repeat("x", 600)))
		w.said("0s intend is held")
	})
}

func TestOpenFileGrowsWhileOneIsOnItsWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.InProgress}, {Status: contract.Finished}}
		m := testMapping()
		m.Roll.Rows = 2
		w.start(m)
		w.append(write(schemas.Upsert, "1"), write(schemas.Upsert, "2"))
		synctest.Wait()
		w.append(write(schemas.Upsert, "3"), write(schemas.Upsert, "4"), write(schemas.Upsert, "5"))
		synctest.Wait()
		if s := w.b.Status()[0]; s.Rows != 3 || s.Import == nil || s.Import.Step != contract.Importing || s.Import.Execution != "e1" {
			t.Errorf("status: got %+v, import %+v, want 3 open rows and e1 importing", s, s.Import)
		}
		time.Sleep(time.Minute)
		w.said(
			`0s intend upsert 1/1 attempt 1 "" holds 100-101`,
			`0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n2,,\n", <nil>`,
			`0s record upsert 1/1 attempt 1 "e1" holds 100-101`,
			`2s poll e1: IN_PROGRESS`,
			`5s poll e1: FINISHED`,
			`5s confirm upsert 1/1 attempt 1 "e1" holds 100-101`,
			`5s intend upsert 1/1 attempt 1 "" holds 100-102`,
			`5s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n3,,\n4,,\n5,,\n", <nil>`,
			`5s record upsert 1/1 attempt 1 "e2" holds 100-102`,
			`7s poll e2: FINISHED`,
			`7s confirm upsert 1/1 attempt 1 "e2" holds 100-102`,
		)
	})
}

func TestClaimsAreOnePerAssignment(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.hold = "trigger"
		w.start(testMapping())
		other := &partition{}
		for i, p := range []*partition{w.p, other, w.p, w.p, other} {
			w.add("customers", write(schemas.Upsert, fmt.Sprint(i%3)), p, int64(i))
		}
		time.Sleep(time.Hour)
		w.said(`1h0m0s intend upsert 1/1 attempt 1 "" holds 0-3 1-4`, `1h0m0s trigger is held`)
	})
}

// turnstile holds rolls and further attempts back until told otherwise.
type turnstile struct{ roll, retry atomic.Int64 }

func (g *turnstile) Wait(_ string, _ *contract.Import, retry bool) time.Duration {
	if retry {
		return time.Duration(g.retry.Load())
	}
	return time.Duration(g.roll.Load())
}

// Refused says that a day is over that the answer was on.
func (*turnstile) Refused(_ string, at time.Time) time.Duration {
	if at.IsZero() {
		return 15 * time.Minute
	}
	return 4 * time.Second
}

func TestGateHoldsBackRollsAndFurtherAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := fullFiles(t, func(m *files.Mapping) { m.Roll.Rows = 1 })
		w.triggers <- &refusal{transient: true}
		w.run()
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(90 * time.Second)
		w.append(write(schemas.Upsert, "2"))
		w.said()
		gate.roll.Store(0)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		gate.retry.Store(int64(time.Hour))
		time.Sleep(time.Hour)
		w.said(`2m0s intend upsert 1/1 attempt 1 "" holds 100-100`, `2m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,,\n2,,\n", service said no`)
		if got := w.b.Status()[0].Import.Step; got != contract.Waiting {
			t.Errorf("step: got %q, want %q", got, contract.Waiting)
		}
		gate.retry.Store(0)
		time.Sleep(time.Hour)
		w.lastSaid("confirm")
	})
}

func TestAppendRefusesWhatIsNoRow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := testMapping()
		delete(m.Loads, schemas.Delete)
		w.start(m)
		for _, refused := range []schemas.Write{write(schemas.Delete, "1"), write(schemas.Upsert, ""), write(schemas.Upsert, "1", "a", "\xff")} {
			if err := w.b.Append("customers", refused, w.p, 1); err == nil {
				t.Errorf("append of %v: got no error, want one", refused.Op)
			}
		}
		if err := w.b.Append("orders", write(schemas.Upsert, "1"), w.p, 1); err == nil {
			t.Error("append to an unknown mapping: got no error, want one")
		}
		time.Sleep(2 * time.Hour)
		w.said()
	})
}

// TestRestartDoesNotLetAFileWaitLonger: rows that are read again after a restart or a reload
// have waited since they were written. Later files begin with their first row.
func TestRestartDoesNotLetAFileWaitLonger(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo") // it is 09:00 there when the test begins
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		roll    files.Roll
		written time.Duration // before the restart
		due     time.Duration // after it
	}{
		"a part of its age":        {files.Roll{Age: time.Hour}, 40 * time.Minute, 20 * time.Minute},
		"more than its age":        {files.Roll{Age: time.Hour}, 48 * time.Hour, 15 * time.Second},
		"a short age":              {files.Roll{Age: 8 * time.Second}, time.Minute, 2 * time.Second},
		"its time of day has come": {files.Roll{At: []time.Duration{8*time.Hour + 30*time.Minute}}, time.Hour, 15 * time.Second},
		"its time of day comes":    {files.Roll{At: []time.Duration{9*time.Hour + 30*time.Minute}}, time.Hour - time.Minute, 30 * time.Minute},
		"it is not known when":     {files.Roll{Age: time.Hour}, 0, time.Hour},
	} {
		each(t, name, func(t *testing.T, w *world) {
			m := testMapping()
			m.Zone, m.Roll = tokyo, c.roll
			if c.written > 0 {
				w.p.written = w.begun.Add(-c.written)
			}
			w.start(m)
			w.append(write(schemas.Upsert, "1"))
			if got, want := w.b.Status()[0].Until, w.begun.Add(c.due); !got.Equal(want) {
				t.Errorf("due: got %v, want %v", got, want)
			}
			time.Sleep(c.due)
			if got := sent(w.transcript(), "trigger"); len(got) != 1 {
				t.Errorf("got %q, want a file", got)
			}
			time.Sleep(time.Minute)
			w.append(write(schemas.Upsert, "2"))
			if got := w.b.Status()[0].Until; c.roll.Age > 0 && !got.Equal(time.Now().Add(c.roll.Age)) {
				t.Errorf("the next one: got due at %v, want %v from now on", got, c.roll.Age)
			}
		})
	}
}

// TestAnotherOwnerDoesNotLetAFileWaitLonger: its rows have waited since they were written, be
// it that this process runs for long, has had the table before, or that calls take the rows.
func TestAnotherOwnerDoesNotLetAFileWaitLonger(t *testing.T) {
	for name, auto := range map[string]bool{"rows": false, "rows that wait for calls": true} {
		each(t, name, func(t *testing.T, w *world) {
			m := testMapping()
			m.Auto, m.Roll = auto, files.Roll{Age: time.Hour}
			if auto {
				w.open(Config{Calls: &scriptedCalls{w: w}}, m)
				w.run()
			} else {
				w.start(m)
			}
			for range 2 {
				time.Sleep(24 * time.Hour)
				w.b.Begin("customers")
				w.p.written = time.Now().Add(-40 * time.Minute)
				if auto {
					w.offer(1, write(schemas.Upsert, "1"), func(o *waiting.Offer, _ *heldRecord) { o.Written = w.p.written })
				} else {
					w.append(write(schemas.Upsert, "1"))
				}
				if got, want := w.b.Status()[0].Until, time.Now().Add(20*time.Minute); !got.Equal(want) {
					t.Errorf("due: got %v, want %v", got, want)
				}
				lose(w.b, "customers")
			}
		})
	}
}

// TestFileIsDueAtItsTimeOfDay: what was read by then goes, whatever its age; what comes
// at that time or later waits for the next.
func TestFileIsDueAtItsTimeOfDay(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo") // it is 09:00 there when the test begins
	if err != nil {
		t.Fatal(err)
	}
	inWorld(t, func(t *testing.T, w *world) {
		m := testMapping()
		m.Zone, m.Roll = tokyo, files.Roll{At: []time.Duration{12*time.Hour + 30*time.Minute, 9*time.Hour + 30*time.Minute}}
		w.start(m)
		w.append(write(schemas.Upsert, "1"))
		if got, want := w.b.Status()[0].Until, w.begun.Add(30*time.Minute); !got.Equal(want) {
			t.Errorf("due: got %v, want %v", got, want)
		}
		time.Sleep(30*time.Minute - time.Second)
		w.append(write(schemas.Upsert, "2"))
		w.said()
		time.Sleep(time.Second)
		if got := sent(w.transcript(), "trigger"); len(got) != 1 || !strings.Contains(got[0], `\n1,,\n2,,\n`) {
			t.Errorf("at 09:30: got %q, want a file of both rows", got)
		}
		w.append(write(schemas.Upsert, "3"))
		time.Sleep(3*time.Hour - time.Second)
		if got := sent(w.transcript(), "trigger"); len(got) != 0 {
			t.Errorf("before 12:30: got %q, want nothing", got)
		}
		time.Sleep(time.Second)
		if got := sent(w.transcript(), "trigger"); len(got) != 1 {
			t.Errorf("at 12:30: got %q, want a file", got)
		}
		w.append(write(schemas.Upsert, "4"))
		time.Sleep(21 * time.Hour)
		if got := sent(w.transcript(), "trigger"); len(got) != 1 {
			t.Errorf("at 09:30 the day after: got %q, want a file", got)
		}
	})
}
