package why

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Each record has its line, and below it what is its own.
func TestTableKeepsRecordsApart(t *testing.T) {
	until := time.Date(2026, 11, 23, 17, 14, 0, 0, time.UTC)
	got := tableOf([]Record{
		{Topic: "orders", Offset: 1, Op: "upsert", Columns: []string{"seq", "status"}, Lane: "immediate", Verdict: Confirmed, Why: "first"},
		{Topic: "orders", Offset: 2, Op: "patch", Columns: []string{"status"}, Values: map[string]json.RawMessage{"status": json.RawMessage(`"PAID"`)}, Lane: "batch", Verdict: Waiting, Why: "second", Until: until},
	})
	var kinds []string
	for line := range strings.Lines(got) {
		kinds = append(kinds, strings.Fields(line)[0])
	}
	if want := "RECORD orders[0]@1 columns why orders[0]@2 value why until"; strings.Join(kinds, " ") != want {
		t.Errorf("got %q, want %q in\n%s", kinds, want, got)
	}
}

func TestPlaceIsATopicsOffset(t *testing.T) {
	if at, ok := ParsePlace("a[b].c[2]@17"); !ok || at.Topic != "a[b].c" || at.Partition != 2 || at.Offset != 17 {
		t.Errorf("got %v, %v, want partition 2 of a[b].c at offset 17", at, ok)
	}
	for _, bad := range []string{"orders", "orders@1", "orders[1]", "[1]@1", "orders[-1]@1", "orders[1]@-1", "orders[1]@x", "orders[99999999999]@1"} {
		if _, ok := ParsePlace(bad); ok {
			t.Errorf("%s: want it refused", bad)
		}
	}
}
