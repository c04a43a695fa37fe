package batcher

import (
	"archive/zip"
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/schemas"
)

// outputsOf are output files in a ZIP, by name and text.
func outputsOf(t *testing.T, namesAndTexts ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(namesAndTexts); i += 2 {
		w, err := z.Create(namesAndTexts[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(namesAndTexts[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	check(t, z.Close())
	return b.String()
}

func TestRowsInErrorOfABundleFindTheirMapping(t *testing.T) {
	writes := []schemas.Write{write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "o1", "a", "x"), write(schemas.Upsert, "2", "a", "x"), write(schemas.Upsert, "o2", "a", "x")}
	for _, tc := range []struct {
		name    string
		inError int64
		files   string
		want    []string
		rows    [2]int64 // in error, of customers and orders
	}{
		{
			"by the names of the files", 3,
			outputsOf(t, "customers-error.csv", "k,a,error\n1,x,bad\n", "orders-error.csv", "k,a,error\no1,x,worse\n2,x,not an order\n"),
			[]string{
				"reject 100 of e1: bad", "reject 101 of e1: worse", `unmatched orders "2": "k,a,error\n2,x,not an order\n": not an order`, "1 rows of crm-*.upsert.csv.zip unmatched",
				`confirm upsert 1/1 attempt 1 "e1" holds 100-103`,
			},
			[2]int64{1, 1},
		},
		{
			"by the keys, where nothing else tells", 3, "k,error\n2,bad\no2,worse\nx,bad\n",
			[]string{
				"reject 102 of e1: bad", "reject 103 of e1: worse",
				`unmatched customers "x": "k,error\nx,bad\n": bad (of which of the bundle's tables it is the output files do not tell)`,
				"1 rows of crm-*.upsert.csv.zip unmatched", `confirm upsert 1/1 attempt 1 "e1" holds 100-103`,
			},
			[2]int64{1, 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := rejecting(t, tc.inError, tc.files)
				wantLines(t, w.rejectedOf(bundled(testMapping()), writes...), tc.want...)
				got := w.endings()[0].Members
				if len(got) != 2 || [2]int64{got[0].InError, got[1].InError} != tc.rows || got[0].Rows != 2 || got[1].Rows != 2 {
					t.Errorf("observed: got members %+v, want %v in error of 2 each", got, tc.rows)
				}
			})
		})
	}
}

// askedParents notes whose parents were asked for.
type askedParents struct{ of []string }

func (p *askedParents) Await(_ context.Context, mapping string, _ func() map[reconcile.At]bool) error {
	p.of = append(p.of, mapping)
	return nil
}

func TestABundleWaitsAndIsWaitedForAsAWhole(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := testMapping()
		m.Roll.Age = 24 * time.Hour
		mappings := bundled(m)
		mappings[1].After = []string{"customers", "shops"}
		shops, visits := m, m
		shops.Name = "shops"
		visits.Name, visits.After, visits.Roll.Rows = "visits", []string{"orders"}, 1
		parents := &askedParents{}
		w.open(Config{Parents: parents}, append(mappings, shops, visits)...)
		w.run()
		for i, name := range []string{"customers", "shops", "visits"} { // none of orders
			w.add(name, write(schemas.Upsert, name), w.p, int64(i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		var files []string
		for _, e := range w.endings() {
			files = append(files, unique.ReplaceAllString(e.File, "*"))
		}
		if want := []string{"shops-*.upsert.csv.gz", "crm-*.upsert.csv.zip", "visits-*.upsert.csv.gz"}; !slices.Equal(files, want) {
			t.Errorf("files in their order: got %q, want %q", files, want)
		}
		if want := []string{"visits", "customers", "orders"}; !slices.Equal(slices.Sorted(slices.Values(parents.of)), slices.Sorted(slices.Values(want))) {
			t.Errorf("asked for the parents of %q, want %q", parents.of, want)
		}
	})
}

func TestAFileWaitsForParentsThatHaveCallsAlone(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		m := testMapping()
		m.Roll.Rows, m.After = 1, []string{"parents without files"}
		gate := &gateOfParents{open: make(chan struct{})}
		w.open(Config{Parents: gate}, m)
		w.run()
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Minute)
		w.said()
		close(gate.open)
		time.Sleep(time.Minute)
		w.lastSaid("confirm upsert 1/1")
	})
}

// What a former owner sent is known by the bundle alone: its partitions are
// suspect to all mappings until they were read, whichever mapping reads them.
func TestAdoptedBundleReadsOnForAllOfItsMappings(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := testMapping()
		mappings := bundled(m)
		mappings[1].DualLane = true
		w.open(Config{Peer: idlePeer{}}, mappings...)
		a := w.left(103, running(1, 1))
		check(t, w.b.Adopt("orders", a))
		if got := w.b.Status()[0].Bundle; got != "crm" {
			t.Errorf("bundle: got %q, want crm", got)
		}
		q := w.b.queues[0]
		if len(q.members[1].dualLane.suspect) != 1 || q.adopted.Mapping != "customers" || len(q.adopted.Members) != 2 || q.adopted.ETL != "101" {
			t.Fatalf("adopted: got %+v, want both mappings' import", q.adopted)
		}
		w.b.Passed("customers", w.p, 103)
		if got := q.members[1].dualLane.suspect; len(got) != 0 {
			t.Errorf("suspect after the partition was read: got %v, want nothing: no other mapping reads it", got)
		}
		check(t, w.b.Close())
	})
}

// idlePeer is another lane that writes nothing.
type idlePeer struct{ contract.Peer }

func (idlePeer) Look(context.Context) error { return nil }
