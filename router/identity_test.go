package router_test

import (
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func identityOf(t *testing.T, m router.Mapping, rec *router.Record, value string) (key, id string, byRecordKey bool) {
	t.Helper()
	r, problems := router.Compile([]router.Mapping{m})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	rec.Topic = m.Topics[0]
	if value != "" {
		var err error
		if rec.Value, err = schemas.NewJSON().Decode([]byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	return r.Identify(r.Mappings()[0], rec)
}

var (
	people  = router.Mapping{Name: "people", Topics: []string{"t"}, ProfileTable: "people", Key: "number", Routes: []router.Route{{Lane: "immediate"}}}
	changed = router.Mapping{
		Name: "changed", Topics: []string{"t"}, CustomTable: "orders", Key: "businessKey", Envelope: "debezium", KafkaKey: "json",
		Fields: []router.Field{{From: "id", To: "businessKey"}, {From: "status", To: "status"}}, Routes: []router.Route{{Lane: "immediate"}},
	}
)

// A row is found though its record is refused, or skipped, or says nothing.
func TestRowIsIdentifiedWhateverIsWrongWithItsRecord(t *testing.T) {
	for name, c := range map[string]struct {
		m           router.Mapping
		key, value  string
		want, id    string
		byRecordKey bool
	}{
		"a good one":               {people, "r", `{"key":{"number":"7"},"profileId":"p1"}`, "7", "p1", false},
		"a patch without its id":   {people, "r", `{"op":"patch","key":{"number":7}}`, "7", "", false},
		"an op that is none":       {people, "7", `{"op":"upsort","key":{"number":"8"}}`, "7", "", true},
		"no event at all":          {people, "7", `[]`, "7", "", true},
		"a change":                 {changed, `{"id":"k"}`, `{"op":"u","source":{},"before":null,"after":{"id":7,"status":"NEW"}}`, "7", "", false},
		"a delete without its row": {changed, `{"id":"k"}`, `{"op":"d","source":{},"before":null,"after":null}`, "k", "", false},
		"nothing that names a row": {people, "", `{"attributes":{}}`, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			key, id, byRecordKey := identityOf(t, c.m, &router.Record{Key: []byte(c.key)}, c.value)
			if key != c.want || id != c.id || byRecordKey != c.byRecordKey {
				t.Errorf("got %q, %q, by the record's key %v; want %q, %q, %v", key, id, byRecordKey, c.want, c.id, c.byRecordKey)
			}
		})
	}
	if key, _, by := identityOf(t, people, &router.Record{Key: []byte("7"), Tombstone: true}, ""); key != "7" || by {
		t.Errorf("a tombstone: got %q, by the record's key %v, want 7, which is its row", key, by)
	}
}

// What a conversion, an expression, a default or a schema makes is in no record.
func TestOnlyKeysThatAreCopiedAreVerbatim(t *testing.T) {
	with := func(change func(m *router.Mapping)) router.Mapping {
		m := changed
		m.Envelope, m.KafkaKey = "", ""
		m.Fields = append([]router.Field(nil), m.Fields...)
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		m      router.Mapping
		want   bool
		unless int
	}{
		"canonical":       {people, true, 1},
		"a member":        {with(func(*router.Mapping) {}), true, 1},
		"a header":        {with(func(m *router.Mapping) { m.Fields[0].From = "headers.id" }), true, 1},
		"debezium":        {changed, true, 2},
		"an expression":   {with(func(m *router.Mapping) { m.Fields[0].From, m.Fields[0].Expr = "", "lower(id)" }), false, 0},
		"a conversion":    {with(func(m *router.Mapping) { m.Fields[0].As = "string" }), false, 0},
		"a type":          {with(func(m *router.Mapping) { m.Types = []router.Type{{Name: "businessKey", As: "integer"}} }), false, 0},
		"a length":        {with(func(m *router.Mapping) { m.Types = []router.Type{{Name: "businessKey", Length: 300}} }), true, 1},
		"a default":       {with(func(m *router.Mapping) { m.Fields[0].Default = `"none"` }), false, 0},
		"the partition":   {with(func(m *router.Mapping) { m.Fields[0].From = "partition" }), false, 0},
		"avro":            {with(func(m *router.Mapping) { m.Format = "avro" }), false, 0},
		"json-schema":     {with(func(m *router.Mapping) { m.Format = "json-schema" }), false, 0},
		"a key in avro":   {with(func(m *router.Mapping) { m.KafkaKey = "avro" }), false, 0},
		"a key in schema": {with(func(m *router.Mapping) { m.KafkaKey = "json-schema" }), false, 0},
		"an id from time": {with(func(m *router.Mapping) { m.ProfileID = "timestamp" }), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, problems := router.Compile([]router.Mapping{c.m})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			unless, got := r.Mappings()[0].Verbatim()
			if got != c.want || len(unless) != c.unless {
				t.Errorf("got %v unless %q, want %v unless one of %d", got, unless, c.want, c.unless)
			}
		})
	}
}
