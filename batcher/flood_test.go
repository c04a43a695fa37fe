package batcher

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// half halts a mapping if half of a file's rows are in error.
type half struct{ told []string }

func (h *half) Suspects(_ string, rows, inError int64) bool { return 2*inError >= rows }

func (h *half) Ended(mapping string, rows, inError int64) string {
	h.told = append(h.told, fmt.Sprintf("%s %d of %d", mapping, inError, rows))
	if h.Suspects(mapping, rows, inError) && inError > 0 {
		return "half of its rows are in error"
	}
	return ""
}

// flooded runs four writes through an import that has rows in error.
func flooded(t *testing.T, op schemas.Op, inError int64, files string) (*world, *half) {
	w, h := rejecting(t, inError, files), &half{}
	w.open(Config{Floods: h}, testMapping())
	w.run()
	var writes []schemas.Write
	for key := range 4 {
		writes = append(writes, write(op, fmt.Sprint(key), "a", "x"))
	}
	w.append(writes...)
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	return w, h
}

func TestFloodOfRowsInErrorHaltsBeforeAnyDeadLetterUntilRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := flooded(t, schemas.Upsert, 2, "k,error\n0,bad\n1,bad\n")
		w.lastSaid("output files")
		reason, halted := w.b.Halted("customers")
		if st := w.b.Status()[0]; !halted || reason != "half of its rows are in error" || !st.Import.Loaded || st.Import.Step != contract.Halting {
			t.Errorf("got %q, %+v, want it halted with its file loaded", reason, st.Import)
		}
		w.release("customers")
		time.Sleep(time.Minute)
		var got []string
		for _, line := range w.transcript() {
			got = append(got, line[len("2h0m0s "):])
		}
		wantLines(t, got, "reject 100 of e1: bad", "reject 101 of e1: bad", `confirm upsert 1/1 attempt 1 "e1" holds 100-103`)
		w.goesOn()
	})
}

func TestRowsThatAreNoSignOfAMistakeAreNoFlood(t *testing.T) {
	for name, tc := range map[string]struct {
		op      schemas.Op
		inError int64
		files   string
		want    string
	}{
		"few":                     {schemas.Upsert, 1, "k,error\n0,bad\n", "customers 1 of 4"},
		"none":                    {schemas.Upsert, 0, "", "customers 0 of 4"},
		"several values of a row": {schemas.Upsert, 1, "k,error\n0,bad\n0,worse\n0,worst\n", "customers 1 of 4"},
		"nothing to delete":       {schemas.Delete, 3, "k,error\n0,not found\n1,not found\n2,not found\n", "customers 0 of 4"},
		"repeated creates":        {schemas.Create, 3, "k,error\n0,exists already\n1,already there\n2,duplicate key\n", "customers 0 of 4"},
		"rows without a key":      {schemas.Upsert, 3, "k,error\n,bad\n,bad\n,bad\n", "customers 0 of 4"},
		"rows without a record":   {schemas.Upsert, 4, "k,error\n0,bad\n7,bad\n8,bad\n9,bad\n", "customers 1 of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, h := flooded(t, tc.op, tc.inError, tc.files)
				if len(h.told) != 1 || h.told[0] != tc.want {
					t.Errorf("counted: got %q, want %q", h.told, tc.want)
				}
				w.goesOn()
				w.lastSaid("confirm")
			})
		})
	}
}

func TestFloodOfABundleIsOfOneOfItsMappings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := rejecting(t, 2, outputsOf(t, "customers-error.csv", "k,a,error\n1,x,bad\n", "orders-error.csv", "k,a,error\no1,x,bad\n")), &half{}
		w.open(Config{Floods: h}, bundled(testMapping())...)
		w.run()
		w.append(write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "a", "x"), write(schemas.Upsert, "3", "a", "x"), write(schemas.Upsert, "o1", "a", "x"), write(schemas.Upsert, "o2", "a", "x"))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		wantLines(t, h.told, "customers 1 of 3", "orders 1 of 2")
		for _, m := range []string{"customers", "orders"} {
			if _, halted := w.b.Halted(m); !halted {
				t.Errorf("%s: got not halted, want the bundle's file to wait", m)
			}
		}
	})
}
