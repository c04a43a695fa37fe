package connector

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// TestLateRejectsLeaveTheMemoryOfWritesAlone: a write that cannot be a row joins
// the rejects. In the memory behind what was routed it would lend its cells to a
// write of the next record.
func TestLateRejectsLeaveTheMemoryOfWritesAlone(t *testing.T) {
	for _, rejected := range []error{nil, errors.New("rejected")} {
		l := &lane{which: schemas.Batch, routed: make([]router.Routed, 2, 4)}
		l.routed[0] = router.Routed{Lane: schemas.Batch, Write: schemas.Write{Cells: make([]schemas.Cell, 1)}}
		l.routed[1] = router.Routed{Lane: schemas.Batch, Err: rejected}
		writes, rejects := l.mine()
		rejects = append(rejects, writes[0])
		if behind := l.routed[:3][2]; behind.Write.Cells != nil {
			t.Errorf("%d writes, %d rejects: got %v behind what was routed, want nothing", len(writes), len(rejects), behind)
		}
	}
}

// batchLane is a batch lane that decodes and routes: of the topic both rows and
// calls are made, of the topic rows nothing but rows.
func batchLane(t *testing.T) *lane {
	t.Helper()
	mapping := func(name string, routes ...router.Route) router.Mapping {
		m := router.Mapping{Name: name, Topics: []string{name}, Format: "json", CustomTable: name, Key: "businessKey", Routes: routes}
		m.Imports.Columns = []router.Column{{Name: "businessKey"}, {Name: "name"}}
		m.Imports.Roll.Rows, m.Imports.SlotsPerDay = 1, 1
		m.Imports.Upsert = &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}
		return m
	}
	toBatch := router.Route{Lane: "batch"}
	r, problems := router.Compile([]router.Mapping{mapping("both", router.Route{When: `op == "patch"`, Lane: "immediate"}, toBatch), mapping("rows", toBatch)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return &lane{which: schemas.Batch, Reader: decode.NewReader(r, nil)}
}

// routes decodes and routes an upsert of a topic.
func (l *lane) routes(t *testing.T, topic, value string) {
	t.Helper()
	decoded, err := l.Decode(&kafka.Record{Topic: topic, Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	if l.route(decoded, topic == "both"); len(l.routed) != 1 || l.routed[0].Err != nil {
		t.Fatalf("%s: got %+v, want one write", value, l.routed)
	}
}

// TestFollowedWritesOutliveTheRowsOfOtherTopics: what is known of a key that both
// lanes write must not become that of a row that was read later.
func TestFollowedWritesOutliveTheRowsOfOtherTopics(t *testing.T) {
	l := batchLane(t)
	event := func(name string) string {
		return fmt.Sprintf(`{"op":"upsert","businessKey":%q,"properties":{"name":%q}}`, name, name)
	}
	l.routes(t, "rows", event("before"))
	for i := range 3 {
		want := fmt.Sprint("followed ", i)
		l.routes(t, "both", event(want))
		kept := l.routed[0].Write
		l.routes(t, "rows", event("another's"))
		l.routes(t, "both", event("another's"))
		if got := kept.Cells[len(kept.Cells)-1].Value.Text(); kept.Key != want || got != want {
			t.Errorf("write of key %q: got name %q, want %q", kept.Key, got, want)
		}
	}
}

// TestRecordsThatPassedAreLetGoOf: what a text is borrowed from can be megabytes.
func TestRecordsThatPassedAreLetGoOf(t *testing.T) {
	l := batchLane(t)
	held := func() weak.Pointer[byte] {
		value := []byte(`{"op":"upsert","businessKey":"the first","properties":{"name":"of the first"}}`)
		decoded, err := l.Decode(&kafka.Record{Topic: "rows", Value: value})
		if err != nil {
			t.Fatal(err)
		}
		l.route(decoded, false)
		if got := l.routed[0].Write.Cells[0].Value.Text(); got != "of the first" {
			t.Errorf("text of a borrowed record: got %q", got)
		}
		return weak.Make(&value[0])
	}()
	l.routes(t, "rows", `{"op":"upsert","businessKey":"the second","properties":{}}`)
	l.Forget()
	runtime.GC()
	if held.Value() != nil {
		t.Error("the first record is still held")
	}
	runtime.KeepAlive(l)
}
