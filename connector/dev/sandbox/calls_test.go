package sandbox_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func TestLogHasCallsInOrderOfApplication(t *testing.T) {
	v := newService(t, config())
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 50 {
				body := fmt.Sprintf(`{"attributes":{"customerNumber":"C%d","note":"%d-%d"}}`, i%3, worker, i)
				v.call(http.MethodPost, profiles, body)
			}
		})
	}
	wg.Wait()
	last := map[string]any{}
	var seq int64
	for _, c := range v.Calls() {
		if c.Seq <= seq {
			t.Fatalf("sequence %d after %d", c.Seq, seq)
		}
		seq = c.Seq
		if c.Op == 1 {
			if !c.Applied || !c.TokenOK || c.Status != 200 || c.ID == "" || c.Digest == "" || c.Table != "customers" {
				t.Fatalf("got %+v", c)
			}
			last[c.Key] = c.Values["note"]
		}
	}
	for key, note := range last {
		if row, _ := v.Row("customers", key); row.Values["note"] != note {
			t.Errorf("%s: the table says %v, the log's last call %v", key, row.Values["note"], note)
		}
	}
	if got := v.CallCount(1); got != 400 {
		t.Errorf("got %d calls counted, want 400", got)
	}
}

func TestLogKeepsTheLastCallsOnly(t *testing.T) {
	for limit, want := range map[int][]string{0: nil, 2: {"C4", "C5"}} {
		c := config()
		c.KeepCalls = limit
		v := newService(t, c)
		for i := range 6 {
			v.profile(fmt.Sprintf(`{"attributes":{"customerNumber":"C%d"}}`, i))
		}
		var got []string
		for _, c := range v.Calls() {
			got = append(got, c.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
}

func TestSnapshotsAreCopies(t *testing.T) {
	v := newService(t, config())
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	v.Rows("customers")["C1"].Values["note"] = "scribbled"
	v.wantRow("customers", "C1", map[string]string{"customerNumber": "C1"})
	if v.Rows("none") != nil {
		t.Error("got rows of a table that does not exist")
	}
	v.Empty()
	if got := v.Len("customers"); got != 0 {
		t.Errorf("emptied: got %d rows, want none", got)
	}
}

func TestOpenTablesTakeAnyFieldAndDiscardingTablesKeepNone(t *testing.T) {
	c := config()
	c.Tables = append(c.Tables,
		sandbox.Table{Name: "open", Keys: []string{"id"}, Open: true},
		sandbox.Table{Name: "sink", Keys: []string{"id"}, Open: true, Discard: true})
	c.ETLs = append(c.ETLs, sandbox.ETL{ID: "sink", Loads: []sandbox.Load{{Table: "sink", Mode: sandbox.UpdateOnly}}})
	v := newService(t, c)
	body := `{"attributes":{"id":"1","any":{"thing":[1]}},"subscriptions":{"x":true}}`
	v.must(200, http.MethodPost, strings.Replace(profiles, "customers", "open", 1), body)
	v.wantRow("open", "1", map[string]string{"id": "1", "any": `{"thing":[1]}`, "subscriptions#x": "true"})
	v.must(200, http.MethodPost, strings.Replace(profiles, "customers", "sink", 1), body)
	if e := v.load("sink", "id,a\n1,x\n2,y\n"); e.Results.Inserted != 2 || v.Len("sink") != 0 {
		t.Errorf("got %+v %s and %d rows, want 2 counted and none kept", e.Results, e.Error, v.Len("sink"))
	}
}
