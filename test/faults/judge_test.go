package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// courtroom is a judge who says aloud nothing, about one row that was written
// up to seq 7 and is at home in partition 2 of its topic.
func courtroom(t *testing.T) (*judge, name) {
	t.Helper()
	id := name{"orders", "orders-1"}
	g := newGenerator(1, false)
	g.seq[id], g.rows[id] = 7, row{"seq": "7", "status": "paid"}
	w := &world{diary: &diary{onRecord: map[string]bool{}}, load: &load{generator: g, home: map[name]int32{id: 2}}}
	j := newJudge(w)
	j.say = t.Logf
	return j, id
}

func TestJudgeFindsRowsThatDiffer(t *testing.T) {
	good := sandbox.Row{Key: "orders-1", Values: map[string]any{"seq": "7", "status": "paid"}}
	stale := sandbox.Row{Key: "orders-1", Values: map[string]any{"seq": "6", "status": "paid"}}
	for what, c := range map[string]struct {
		rows map[string]sandbox.Row
		want int
	}{
		"as it should be": {map[string]sandbox.Row{"orders-1": good}, 0},
		"stale":           {map[string]sandbox.Row{"orders-1": stale}, 1},
		"missing":         {nil, 1},
		"one too many":    {map[string]sandbox.Row{"orders-1": good, "orders-2": good}, 1},
	} {
		j, _ := courtroom(t)
		have := func(table string) map[string]sandbox.Row {
			if table == "orders" {
				return c.rows
			}
			return nil
		}
		if got := j.compare(have); got != c.want {
			t.Errorf("%s: got %d lost, want %d", what, got, c.want)
		}
		if got := j.compare(have); got != 0 {
			t.Errorf("%s, looked at again: got %d lost, want 0", what, got)
		}
	}
}

func TestJudgeExcusesOlderStatesOnlyAfterAnAssignment(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for what, c := range map[string]struct {
		assigned []assignment
		calls    []call // of the row; at, member and seq
		want     int
	}{
		"in order":                 {nil, []call{{at: at(1), member: "a", seq: 1}, {at: at(2), member: "a", seq: 1}, {at: at(3), member: "a", seq: 2}}, 0},
		"overtaken":                {nil, []call{{at: at(1), member: "a", seq: 2}, {at: at(2), member: "a", seq: 1}}, 1},
		"replayed by a new owner":  {[]assignment{{at(2), "b", immediateGroup, "orders", []int32{2}}}, []call{{at: at(1), member: "a", seq: 2}, {at: at(3), member: "b", seq: 1}}, 0},
		"owner of another one":     {[]assignment{{at(2), "b", immediateGroup, "orders", []int32{3}}}, []call{{at: at(1), member: "a", seq: 2}, {at: at(3), member: "b", seq: 1}}, 1},
		"owner of another topic's": {[]assignment{{at(2), "b", immediateGroup, "tickets", []int32{2}}}, []call{{at: at(1), member: "a", seq: 2}, {at: at(3), member: "b", seq: 1}}, 1},
		"back as a new member":     {[]assignment{{at(2), "a", immediateGroup, "", nil}}, []call{{at: at(1), member: "a", seq: 2}, {at: at(3), member: "a", seq: 1}}, 0},
		"owner for files":          {[]assignment{{at(2), "b", batchGroup, "orders", []int32{2}}}, []call{{at: at(1), member: "a", seq: 2}, {at: at(3), member: "b", seq: 1}}, 1},
		"a trigger in between":     {nil, []call{{at: at(1), member: "a", seq: 2}, {at: at(2), member: "a", etl: "7"}, {at: at(3), member: "a", seq: 2}}, 0},
		"woken, owner no more": {
			[]assignment{{at(2), "b", immediateGroup, "orders", []int32{2}}},
			[]call{{at: at(1), member: "a", seq: 1}, {at: at(3), member: "b", seq: 2}, {at: at(4), member: "a", seq: 1}},
			1,
		},
	} {
		j, id := courtroom(t)
		j.w.diary.assigned = c.assigned
		for i := range c.calls {
			if c.calls[i].etl == "" {
				c.calls[i].row = id
			}
		}
		if got := j.order(c.calls); got != c.want {
			t.Errorf("%s: got %d reordered, want %d", what, got, c.want)
		}
	}
}

func TestJudgeAsksNoOrderForARowInBothLanes(t *testing.T) {
	j, _ := courtroom(t)
	g, id := j.w.load.generator, name{"customers", "customers-1"}
	g.bothLanes = true
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if got := j.order([]call{{at: noon, member: "a", row: id, seq: 2}, {at: noon.Add(1), member: "b", row: id, seq: 1}}); got != 0 {
		t.Errorf("got %d reordered, want 0: what the row holds in the end is what counts", got)
	}
	first, second := j.imported(sandbox.Execution{ID: "1"}, []version{{id, 2}}), j.imported(sandbox.Execution{ID: "2"}, []version{{id, 2}, {id, 1}})
	if none := (findings{}); first != none || second != none {
		t.Errorf("imports of the row: got %v and %v, want nothing found", first, second)
	}
}

func TestStrayIsWhatAMemberSendsThatWasGivenUpAndNotAssignedAnew(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for what, c := range map[string]struct {
		assigned []assignment
		call     call
		want     int
	}{
		"before it was given up":           {nil, call{at: at(4), member: "a"}, 0},
		"another member":                   {nil, call{at: at(6), member: "b"}, 0},
		"a call":                           {nil, call{at: at(6), member: "a"}, 1},
		"a trigger":                        {nil, call{at: at(6), member: "a", etl: "7"}, 1},
		"a call once assigned anew":        {[]assignment{{at(6), "a", immediateGroup, "orders", nil}}, call{at: at(7), member: "a"}, 0},
		"a trigger once assigned anew":     {[]assignment{{at(6), "a", batchGroup, "", nil}}, call{at: at(7), member: "a", etl: "7"}, 0},
		"a trigger, assigned in the other": {[]assignment{{at(6), "a", immediateGroup, "", nil}}, call{at: at(7), member: "a", etl: "7"}, 1},
		"assigned later":                   {[]assignment{{at(8), "a", immediateGroup, "", nil}}, call{at: at(7), member: "a"}, 1},
	} {
		j, _ := courtroom(t)
		j.w.diary.assigned = c.assigned
		j.w.absences = []absence{{"a", at(5)}}
		if got := j.strays([]call{c.call}); got != c.want {
			t.Errorf("%s: got %d strays, want %d", what, got, c.want)
		}
	}
}

func TestJudgeKnowsADeleteByItsOneSeq(t *testing.T) {
	j, id := courtroom(t)
	j.w.load.generator.deletes[id] = 4
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	got := j.order([]call{{at: noon, member: "a", row: id, seq: 5}, {at: noon.Add(1), member: "a", row: id}})
	if got != 1 {
		t.Errorf("a delete after a newer state: got %d reordered, want 1", got)
	}
}

func TestJudgeTellsRepeatedImportsFromCutOnes(t *testing.T) {
	j, id := courtroom(t)
	other := name{"orders", "orders-2"}
	j.w.diary.onRecord["1"] = true
	for _, step := range []struct {
		execution string
		rows      []version
		want      findings
	}{
		{"1", []version{{id, 1}, {other, 1}}, findings{}},
		{"2", []version{{id, 2}}, findings{}},
		{"3", []version{{other, 1}}, findings{repeated: 1}}, // of 1, on record
		{"4", []version{{id, 2}}, findings{cut: 1}},         // of 2, not on record
		{"5", []version{{id, 1}}, findings{reordered: 1, repeated: 1}},
	} {
		if got := j.imported(sandbox.Execution{ID: step.execution}, step.rows); got != step.want {
			t.Errorf("execution %s: got %v, want %v", step.execution, got, step.want)
		}
	}
}

// TestJudgeTellsRepeatedImportsFromThoseOfALateRequest: a member was frozen amid a request.
// The table's new owner waited for it, and then sent the file itself.
func TestJudgeTellsRepeatedImportsFromThoseOfALateRequest(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		requests []call
		want     findings
	}{
		"begun before":    {[]call{{etl: "7", at: at(1), answered: at(12)}}, findings{cut: 1}},
		"begun behind":    {[]call{{etl: "7", at: at(10), answered: at(12)}}, findings{repeated: 1}},
		"of another ETL":  {[]call{{etl: "8", at: at(1), answered: at(12)}}, findings{repeated: 1}},
		"answered before": {[]call{{etl: "7", at: at(1), answered: at(10)}}, findings{repeated: 1}},
		"beside another":  {[]call{{etl: "7", at: at(1), answered: at(12)}, {etl: "7", at: at(10), answered: at(12)}}, findings{repeated: 1}},
	} {
		j, id := courtroom(t)
		j.w.diary.onRecord["1"] = true
		j.came = c.requests
		j.imported(sandbox.Execution{ID: "1", ETL: "7", Accepted: at(8)}, []version{{id, 1}})
		if got := j.imported(sandbox.Execution{ID: "2", ETL: "7", Accepted: at(11)}, []version{{id, 1}}); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestJudgeForgetsWhatWasLoadedBeforeAReset(t *testing.T) {
	j, id := courtroom(t)
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	j.w.diary.onRecord["1"], j.w.diary.onRecord["2"] = true, true
	j.w.reset = noon
	for _, step := range []struct {
		e    sandbox.Execution
		seq  int
		want findings
	}{
		{sandbox.Execution{ID: "1", Accepted: noon.Add(-time.Hour)}, 2, findings{}},
		{sandbox.Execution{ID: "2", Accepted: noon.Add(time.Second)}, 1, findings{}},
		{sandbox.Execution{ID: "3", Accepted: noon.Add(time.Minute)}, 1, findings{repeated: 1}},
	} {
		if got := j.imported(step.e, []version{{id, step.seq}}); got != step.want {
			t.Errorf("execution %s: got %v, want %v", step.e.ID, got, step.want)
		}
	}
}

func TestJudgeReadsTheResultsOfABundle(t *testing.T) {
	j, _ := courtroom(t)
	var body bytes.Buffer
	z := zip.NewWriter(&body)
	for file, text := range map[string]string{
		"prospects-result.csv": "customerNumber,seq,note,S_tier,result\np1,3,x,gold,created\n",
		"visits-result.csv":    "businessKey,seq,status,total,result\nv1,4,x,1,updated\n",
		"visits-error.csv":     "businessKey,seq,status,total,error\nv2,5,x,1,exists\n",
	} {
		if entry, err := z.Create(file); err != nil {
			t.Fatal(err)
		} else if _, err := entry.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := unzip(body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got := map[version]bool{}
	for _, file := range files {
		rows, err := j.rowsIn(sandbox.Execution{Loads: []sandbox.Loaded{{Table: "prospects"}, {Table: "visits"}}}, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range rows {
			got[v] = true
		}
	}
	want := map[version]bool{{name{"prospects", "p1"}, 3}: true, {name{"visits", "v1"}, 4}: true}
	if !maps.Equal(got, want) {
		t.Errorf("rows loaded: got %v, want %v", got, want)
	}
}

func TestJudgeWantsBrokenEventsAndNoOthersInTheDeadLetterTopic(t *testing.T) {
	for what, c := range map[string]struct {
		letters    []string
		lost, both int
	}{
		"as it should be": {[]string{"5", "6"}, 0, 0},
		"twice":           {[]string{"5", "6", "6"}, 0, 0},
		"one missing":     {[]string{"5"}, 1, 0},
		"one too many":    {[]string{"5", "6", "7"}, 0, 1},
	} {
		j, _ := courtroom(t)
		j.w.load.generator.broken = map[string]bool{"5": true, "6": true}
		if lost, both := j.countLetters(c.letters); lost != c.lost || both != c.both {
			t.Errorf("%s: got %d lost and %d both, want %d and %d", what, lost, both, c.lost, c.both)
		}
	}
}

func TestGeneratorKeepsItsRules(t *testing.T) {
	g := newGenerator(7, true)
	patched, deleted := map[name]bool{}, map[name]int{}
	created, known := map[string]int{}, map[name]bool{}
	for range 50_000 {
		r := g.next()
		id := name{r.Topic, string(r.Key)}
		switch value := string(r.Value); {
		case r.Value == nil:
			deleted[id]++
		case strings.Contains(value, `"op":"patch"`):
			patched[id] = true
		case strings.Contains(value, `"op":"create"`):
			if created[id.table]++; known[id] {
				t.Errorf("%v: got a create of a row that is there", id)
			}
		}
		known[id] = g.rows[id] != nil
	}
	if len(g.void) == 0 || len(patched) == 0 || len(deleted) == 0 || len(g.broken) == 0 {
		t.Fatalf("got %d rows patched, %d deleted, %d events broken, want some of each", len(patched), len(deleted), len(g.broken))
	}
	if created["orders"] == 0 || created["tickets"] == 0 || created["invoices"] == 0 {
		t.Errorf("creates: got %v, want some of orders, tickets and invoices", created)
	}
	for id, n := range deleted {
		if id.table != baskets && (n > 1 || patched[id]) {
			t.Errorf("%v: got %d deletes, patched: %v; want one delete at most, and of rows without patches only", id, n, patched[id])
		}
	}
	if again := newGenerator(7, true); fmt.Sprint(again.next()) != fmt.Sprint(newGenerator(7, true).next()) {
		t.Error("the same seed makes other events")
	}
}

func TestJudgeCountsEachSlotTheLedgerMissedOnce(t *testing.T) {
	j, _ := courtroom(t)
	for i, c := range []struct{ accepted, counted, want int }{
		{3, 4, 0}, // an attempt whose request never arrived counts as well
		{6, 5, 1},
		{8, 7, 0},
		{12, 9, 2},
	} {
		if got := j.uncounted("customers", c.accepted, c.counted); got != c.want {
			t.Errorf("look %d, %d accepted and %d counted: got %d, want %d", i+1, c.accepted, c.counted, got, c.want)
		}
	}
}

// A member that was frozen while it joined was never given up.
func TestMemberThatKeptItsPlaceSendsNoStrays(t *testing.T) {
	j, _ := courtroom(t)
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	j.w.absences = []absence{{"a", since}}
	log := journal{member: "a", diary: j.w.diary, copy: io.Discard}
	fmt.Fprintf(&log, `{"time":"2026-11-21T12:00:04Z","msg":"kafka client: synced","group":%q}`+"\n", batchGroup)
	if got := j.strays([]call{{at: since.Add(5 * time.Second), member: "a", etl: "7"}}); got != 0 {
		t.Errorf("got %d strays, want none: the group told the member what it has", got)
	}
}
