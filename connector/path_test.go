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
		l, routed := &lane{laneBase: &laneBase{which: schemas.Batch}}, make([]router.Routed, 2, 4)
		routed[0] = router.Routed{Lane: schemas.Batch, Write: schemas.Write{Cells: make([]schemas.Cell, 1)}}
		routed[1] = router.Routed{Lane: schemas.Batch, Err: rejected}
		writes, rejects := l.mine(routed)
		rejects = append(rejects, writes[0])
		if behind := routed[:3][2]; behind.Write.Cells != nil {
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
	r, problems := router.Compile([]router.Mapping{mapping("both", router.Route{When: `op == "patch"`, Lane: "immediate"}, toBatch), mapping("rows", router.Route{When: `properties.test == true`, Lane: "skip"}, toBatch)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return &lane{laneBase: &laneBase{which: schemas.Batch}, Reader: decode.NewReader(r, nil)}
}

// write reads an upsert of a topic.
func (l *lane) write(t *testing.T, topic string, value []byte) schemas.Write {
	t.Helper()
	in, err := l.read(nil, &kafka.Record{Topic: topic, Value: value}, 0, topic == "both")
	if err != nil || len(in.routed) != 1 || in.routed[0].Err != nil {
		t.Fatalf("%s: got %+v, %v, want one write", value, in.routed, err)
	}
	return in.routed[0].Write
}

// TestFollowedWritesOutliveTheRowsOfOtherTopics: what is known of a key that both
// lanes write must not become that of a row that was read later.
func TestFollowedWritesOutliveTheRowsOfOtherTopics(t *testing.T) {
	l := batchLane(t)
	event := func(name string) []byte {
		return fmt.Appendf(nil, `{"op":"upsert","businessKey":%q,"properties":{"name":%q}}`, name, name)
	}
	l.write(t, "rows", event("before"))
	for i := range 3 {
		want := fmt.Sprint("followed ", i)
		kept := l.write(t, "both", event(want))
		l.write(t, "rows", event("another's"))
		l.write(t, "both", event("another's"))
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
		if got := l.write(t, "rows", value).Cells[0].Value.Text(); got != "of the first" {
			t.Errorf("text of a borrowed record: got %q", got)
		}
		return weak.Make(&value[0])
	}()
	l.write(t, "rows", []byte(`{"op":"upsert","businessKey":"the second","properties":{}}`))
	l.Forget()
	runtime.GC()
	if held.Value() != nil {
		t.Error("the first record is still held")
	}
	runtime.KeepAlive(l)
}
