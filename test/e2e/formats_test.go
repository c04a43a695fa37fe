package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	hamba "github.com/hamba/avro/v2"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// sale is what the events of all formats say.
type sale struct {
	id, status, note string // note: from the second version of the schema on
	cents            int64
	placed           time.Time
}

// dialect is how one format says it: two versions of a schema, and a writer.
type dialect struct {
	format  string
	typ     sr.SchemaType
	schemas [2]string
	write   func(t *testing.T, schema string, version int, s sale) []byte
	fields  string
}

var dialects = []dialect{
	{
		format: "json", write: func(t *testing.T, _ string, version int, s sale) []byte { return jsonOf(t, s.object(version)) },
		fields: `[{from: id, to: businessKey}, {from: cents, to: total, as: number, scale: -2}, {from: status, to: status}, {from: placed, to: placed, as: timestamp}, {from: note, to: note}]`,
	},
	{
		format: "avro", typ: sr.TypeAvro, write: avroSale,
		schemas: [2]string{
			`{"type":"record","name":"Sale","fields":[{"name":"id","type":"string"},
			  {"name":"total","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
			  {"name":"status","type":{"type":"enum","name":"Status","symbols":["OPEN","PAID"]}},
			  {"name":"placed","type":{"type":"long","logicalType":"timestamp-millis"}}]}`,
			`{"type":"record","name":"Sale","fields":[{"name":"note","type":["null","string"],"default":null},{"name":"id","type":"string"},
			  {"name":"total","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
			  {"name":"placed","type":{"type":"long","logicalType":"timestamp-millis"}},
			  {"name":"status","type":{"type":"enum","name":"Status","symbols":["OPEN","PAID"]}}]}`,
		},
		fields: `[{from: id, to: businessKey}, {from: total, to: total}, {from: status, to: status}, {from: placed, to: placed, as: timestamp}, {from: note, to: note}]`,
	},
	{
		format: "json-schema", typ: sr.TypeJSON,
		write: func(t *testing.T, _ string, version int, s sale) []byte { return jsonOf(t, s.object(version)) },
		schemas: [2]string{
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"id":{"type":"string"},"cents":{"type":"integer"},"status":{"type":"string"},"placed":{"type":"string"}},"required":["id"],"additionalProperties":false}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"id":{"type":"string"},"cents":{"type":"integer"},"status":{"type":"string"},"placed":{"type":"string"},"note":{"type":["string","null"]}},"required":["id"],"additionalProperties":false}`,
		},
		fields: `[{from: id, to: businessKey}, {from: cents, to: total, as: number, scale: -2}, {from: status, to: status}, {from: placed, to: placed, as: timestamp}, {from: note, to: note}]`,
	},
	{
		format: "protobuf", typ: sr.TypeProtobuf, write: protoSale,
		schemas: [2]string{
			`syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Sale { string id = 1; int64 total_cents = 2; Status status = 3; google.protobuf.Timestamp placed = 4; }
enum Status { OPEN = 0; PAID = 1; }`,
			`syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Sale { string id = 1; int64 total_cents = 2; Status status = 3; google.protobuf.Timestamp placed = 4; optional string note = 5; }
enum Status { OPEN = 0; PAID = 1; }`,
		},
		fields: `[{from: id, to: businessKey}, {from: total_cents, to: total, as: number, scale: -2}, {from: status, to: status}, {from: placed, to: placed, as: timestamp}, {from: note, to: note}]`,
	},
}

func (s sale) object(version int) map[string]any {
	object := map[string]any{"id": s.id, "cents": s.cents, "status": s.status, "placed": s.placed.Format(time.RFC3339)}
	if version == 1 {
		object["note"] = s.note
	}
	return object
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func avroSale(t *testing.T, schema string, version int, s sale) []byte {
	t.Helper()
	parsed, err := hamba.ParseBytesWithCache([]byte(schema), "", &hamba.SchemaCache{})
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{"id": s.id, "total": big.NewRat(s.cents, 100), "status": s.status, "placed": s.placed}
	if version == 1 {
		object["note"] = map[string]any{"string": s.note}
	}
	data, err := hamba.Marshal(parsed, object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func protoSale(t *testing.T, schema string, version int, s sale) []byte {
	t.Helper()
	object := s.object(version)
	object["total_cents"] = object["cents"]
	delete(object, "cents")
	return protoOf(t, schema, jsonOf(t, object))
}

// protoOf writes JSON as the first message of a schema.
func protoOf(t *testing.T, schema string, text []byte) []byte {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"events.proto": schema}),
	})}
	files, err := compiler.Compile(t.Context(), "events.proto")
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(files[0].Messages().Get(0))
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0}, data...) // the file's first message
}

// framed is a payload in the registry's wire format.
func framed(id int, payload []byte) []byte {
	return append([]byte{0, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}, payload...)
}

// salesTables are a table for each format.
func salesTables(c *sandbox.Config) {
	for _, d := range dialects {
		c.Tables = append(slices.Clone(c.Tables), sandbox.Table{Name: "sales-" + d.format, Custom: true, Fields: []sandbox.Field{
			{Name: "total", Type: sandbox.Number}, {Name: "status"}, {Name: "placed"}, {Name: "note"},
		}})
	}
}

// sales is a configuration with a mapping for each format. The schemas come
// from registry.
func (w *world) sales(registry string) string {
	w.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s%sschemaRegistry: {url: %q, validate: true}\nmappings:\n", head, deadLetters, registry)
	for _, d := range dialects {
		w.createTopics(partitions, "sales-"+d.format)
		key := "text"
		if d.format == "avro" {
			key = "avro"
		}
		fmt.Fprintf(&b, "  - {name: %s, topics: [%q], format: %s, kafkaKey: %s, customTable: sales-%s, key: businessKey, fields: %s, routes: [{lane: immediate}]}\n",
			d.format, w.topic("sales-"+d.format), d.format, key, d.format, d.fields)
	}
	return b.String()
}

// written registers a version of the dialect's schema and writes sales with it.
func (w *world) written(registry *sr.Client, d dialect, version int, sales ...sale) {
	w.t.Helper()
	id := 0
	if d.schemas[0] != "" { // plain JSON has no schema
		id = w.registered(registry, w.topic("sales-"+d.format)+"-value", d.schemas[version], d.typ)
	}
	for _, s := range sales {
		value := d.write(w.t, d.schemas[version], version, s)
		if d.schemas[0] != "" {
			value = framed(id, value)
		}
		key := []byte(s.id)
		if d.format == "avro" {
			key = w.avroKey(registry, s.id)
		}
		w.produce(&kgo.Record{Topic: "sales-" + d.format, Key: key, Value: value})
	}
}

func (w *world) registered(registry *sr.Client, subject, text string, typ sr.SchemaType) int {
	w.t.Helper()
	s, err := registry.CreateSchema(w.t.Context(), subject, sr.Schema{Schema: text, Type: typ})
	if err != nil {
		w.t.Fatal(err)
	}
	return s.ID
}

func (w *world) avroKey(registry *sr.Client, id string) []byte {
	w.t.Helper()
	const schema = `{"type":"record","name":"Key","fields":[{"name":"id","type":"string"}]}`
	key := w.registered(registry, w.topic("sales-avro")+"-key", schema, sr.TypeAvro)
	return framed(key, append([]byte{byte(2 * len(id))}, id...))
}

func (w *world) salesSettled() {
	w.t.Helper()
	for _, d := range dialects {
		w.until("all of "+d.format+" is committed", func() bool { return w.lag("immediate", "sales-"+d.format) == 0 })
	}
}

func registryAt(t *testing.T, address string) *sr.Client {
	t.Helper()
	client, err := sr.NewClient(sr.URLs(address))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestEachFormatArrivesWhileItsSchemaEvolves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, salesTables)
	address := schemaRegistry(t)
	registry := registryAt(t, address)
	w.start(w.sales(address))
	want := map[string]sale{}
	write := func(version, from, to int) {
		var batch []sale
		for i := from; i < to; i++ {
			s := sale{
				id: "s" + strconv.Itoa(i), status: []string{"OPEN", "PAID"}[i%2], cents: int64(i*1000 + 1205),
				placed: time.Date(2026, 11, 21, 10, 0, i, 0, time.UTC),
			}
			if version == 1 {
				s.note = "é " + strconv.Itoa(i)
			}
			batch, want[s.id] = append(batch, s), s
		}
		for _, d := range dialects {
			w.written(registry, d, version, batch...)
		}
	}
	write(0, 0, 20)
	write(1, 20, 40)
	write(0, 40, 50) // a writer that was not upgraded yet
	write(1, 10, 15) // and rows that both have written
	w.produce(&kgo.Record{Topic: "sales-avro", Key: w.avroKey(registry, "s3")})
	w.salesSettled()
	for _, d := range dialects {
		rows := w.service.Rows("sales-" + d.format)
		expected := maps.Clone(want)
		if d.format == "avro" {
			delete(expected, "s3") // the tombstone
		}
		if len(rows) != len(expected) {
			t.Errorf("%s: got %d rows, want %d", d.format, len(rows), len(expected))
		}
		for id, s := range expected {
			row := rows[id]
			got := [4]string{row.Text("total"), row.Text("status"), row.Text("placed"), row.Text("note")}
			if want := [4]string{fmt.Sprintf("%d.%02d", s.cents/100, s.cents%100), s.status, s.placed.Format("2006-01-02T15:04:05Z"), s.note}; got != want {
				t.Errorf("%s %s: got %q, want %q", d.format, id, got, want)
			}
		}
	}
	if got := w.dead(); len(got) != 0 {
		t.Errorf("dead letters: got %d, want none", len(got))
	}
}

// door stands before a registry and can be shut.
func door(t *testing.T, behind string, shut *atomic.Bool) (address string) {
	t.Helper()
	target, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if shut.Load() {
			http.Error(rw, "down for maintenance", http.StatusServiceUnavailable)
			return
		}
		r.Host = target.Host
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestARegistryThatIsAwayRejectsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, salesTables)
	behind := schemaRegistry(t)
	registry := registryAt(t, behind)
	var shut atomic.Bool
	shut.Store(true)
	sink := w.start(w.sales(door(t, behind, &shut)))
	for _, d := range dialects {
		w.written(registry, d, 0, sale{id: "a", status: "PAID", cents: 1205, placed: time.Unix(0, 0).UTC()})
	}
	w.produce(&kgo.Record{Topic: "sales-avro", Key: w.avroKey(registry, "a"), Value: framed(4_000_000, []byte{2})})
	w.until("what needs no schema arrives", func() bool { return w.service.Len("sales-json") == 1 })
	w.until("/status says what is missing", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/status"), "down for maintenance")
	})
	for _, d := range dialects[1:] {
		if w.service.Len("sales-"+d.format) != 0 || w.lag("immediate", "sales-"+d.format) == 0 {
			t.Errorf("%s: the record was taken without its schema", d.format)
		}
	}
	if got := w.dead(); len(got) != 0 {
		t.Fatalf("dead letters while the registry is away: got %d, want none", len(got))
	}
	shut.Store(false)
	w.salesSettled()
	for _, d := range dialects {
		if got := w.service.Len("sales-" + d.format); got != 1 {
			t.Errorf("%s: got %d rows, want 1", d.format, got)
		}
	}
	letters := w.dead()
	if len(letters) != 1 {
		t.Fatalf("dead letters: got %d, want the record whose schema does not exist", len(letters))
	}
	for _, h := range letters[0].Headers {
		if h.Key == "__connect.errors.exception.message" && string(h.Value) != "avro: offset 0: schema 4000000: the registry does not know it" {
			t.Errorf("reason: got %s", h.Value)
		}
	}
}
