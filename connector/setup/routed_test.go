package setup

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// What is written is routed with, so that the comments of the file are true.
func TestWhatIsWrittenTakesTheSampleAndRefusesKindsThatItHasNot(t *testing.T) {
	records := []string{
		`40 {"type":"customer.created","customerNo":40,"mail":"a@example.com","newsletter":true,"b":1}`,
		`41 {"type":"customer.created","customerNo":41,"mail":"b@example.com","newsletter":null,"b":1}`,
		`42 {"type":"customer.updated","customerNo":42,"mail":"c@example.com","newsletter":false,"b":1}`,
		`40 {"type":"customer.changed","customerNo":40,"newsletter":null}`, `42 {"type":"customer.removed","customerNo":42}`,
	}
	_, cfg := looked(t, append([]string{"crm.customers"}, records...))
	r, problems := router.Compile(cfg.Mappings)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	routed := func(record string) router.Routed {
		key, text, _ := strings.Cut(record, " ")
		return r.Route(nil, &router.Record{Topic: "crm.customers", Key: []byte(key), Value: value(t, text)})[0]
	}
	for i, op := range []schemas.Op{schemas.Upsert, schemas.Upsert, schemas.Upsert, schemas.Patch, schemas.Delete} {
		got := routed(records[i])
		if got.Err != nil || got.Write.Op != op {
			t.Errorf("%s: got %v and %v, want %v", records[i], got.Write.Op, got.Err, op)
		}
		for _, cell := range got.Write.Cells {
			if cell.Name == "customerNo" && cell.Value.Kind() != schemas.String {
				t.Errorf("%s: got a key of kind %v, want text", records[i], cell.Value.Kind())
			}
		}
	}
	for _, unseen := range []string{`40 {"type":"customer.closed","customerNo":40,"newsletter":null}`, `40 {"customerNo":40}`} {
		if got := routed(unseen); got.Err == nil || !strings.Contains(got.Err.Error(), "op: comes to nil") {
			t.Errorf("%s: got %v and %v, want a dead letter that says why", unseen, got.Write.Op, got.Err)
		}
	}
}
