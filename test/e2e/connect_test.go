package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// recorded are the modes of test/debezium whose events carry their schema.
var recorded = []string{"schema", "connect", "micros", "iso", "flatschema"}

// changed are the tables whose changes were recorded, with the columns that are
// compared.
var changed = map[string]string{
	"kinds": `{from: id, to: businessKey}, {from: exact, to: exact, as: number}, {from: day, to: day}, {from: clock, to: clock},
      {from: moment, to: moment}, {from: moment3, to: moment3}, {from: moment_tz, to: moment_tz, as: timestamp}, {from: flag, to: flag}, {from: small, to: small},
      {from: big, to: big}, {from: real4, to: real4}, {from: real8, to: real8}, {from: free, to: free}, {from: price, to: price}, {from: word, to: word},
      {from: span, to: span}, {from: uid, to: uid}, {from: docb, to: docb}, {from: feeling, to: feeling}, {from: raw, to: raw}, {from: bits, to: bits},
      {from: 'words[0]', to: words}, {from: 'exacts[0]', to: exacts}, {from: 'days[0]', to: days}, {from: spot.x, to: x}`,
	"large":  `{from: id, to: businessKey}, {from: counter, to: counter}, {from: text_, to: text}`,
	"orders": `{expr: 'shop + "-" + string(number)', to: businessKey}, {from: shop, to: shop}, {from: status, to: status}, {from: total, to: total}`,
}

// The events of a real Debezium as Kafka Connect's Avro converter writes them
// become the same rows, and the same dead letters, as those that its JSON
// converter wrote. That these are the source's is tried in test/debezium.
func TestDebeziumOverAvroSaysWhatItSaysOverJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *sandbox.Config) {
		for _, mode := range recorded {
			for table := range changed {
				c.Tables = append(slices.Clone(c.Tables),
					sandbox.Table{Name: mode + "_" + table + "_json", Custom: true, Open: true},
					sandbox.Table{Name: mode + "_" + table + "_avro", Custom: true, Open: true})
			}
		}
	})
	registry := schemaRegistry(t)
	client := registryAt(t, registry)
	var topics []string
	text := head + deadLetters + "schemaRegistry: {url: \"" + registry + "\"}\nmappings:\n"
	for _, mode := range recorded {
		for table, fields := range changed {
			for _, format := range []string{"json", "avro"} {
				topic := mode + ".public." + table + "." + format
				w.createTopics(1, topic)
				topics = append(topics, topic)
				text += fmt.Sprintf("  - {name: %[1]s-%[2]s-%[3]s, topics: [%[4]q], format: %[3]s, kafkaKey: %[3]s, envelope: debezium,\n"+
					"     customTable: %[1]s_%[2]s_%[3]s, key: businessKey, routes: [{lane: immediate}], fields: [%[5]s]}\n", mode, table, format, w.topic(topic), fields)
			}
		}
	}
	for _, mode := range recorded {
		for _, event := range recordings(t, "../debezium/testdata/"+mode+".jsonl") {
			table := strings.TrimPrefix(event.Topic, mode+".public.")
			if changed[table] == "" {
				continue // tables that say nothing new
			}
			plain, avro := &kgo.Record{Topic: event.Topic + ".json"}, &kgo.Record{Topic: event.Topic + ".avro"}
			if event.Key != nil {
				plain.Key, avro.Key = []byte(*event.Key), w.asAvro(client, event.Topic+".avro-key", *event.Key)
			}
			if event.Value != nil {
				plain.Value, avro.Value = []byte(*event.Value), w.asAvro(client, event.Topic+".avro-value", *event.Value)
			}
			w.produce(plain, avro)
		}
	}
	sink := w.start(text)
	for _, topic := range topics {
		w.until(topic+" is committed", func() bool { return w.lag("immediate", topic) == 0 })
	}
	sink.stop()

	rows := 0
	for _, mode := range recorded {
		for table := range changed {
			want, got := w.service.Rows(mode+"_"+table+"_json"), w.service.Rows(mode+"_"+table+"_avro")
			rows += len(want)
			if g, k := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, k) {
				t.Errorf("%s %s: got rows %v, want %v", mode, table, g, k)
				continue
			}
			for key := range want {
				for column := range want[key].Values {
					if is, be := got[key].Text(column), want[key].Text(column); is != be && !equalNumbers(is, be) {
						t.Errorf("%s %s %s: %s: got %q, want %q", mode, table, key, column, is, be)
					}
				}
			}
		}
	}
	if rows < 12 {
		t.Errorf("got %d rows in all, which proves little", rows)
	}
	letters := map[string][]string{}
	for _, letter := range w.dead() {
		said := map[string]string{}
		for _, h := range letter.Headers {
			said[strings.TrimPrefix(h.Key, "__connect.errors.")] = string(h.Value)
		}
		topic, format, _ := strings.Cut(strings.TrimPrefix(said["topic"], w.prefix), ".json")
		if format == "" && strings.HasSuffix(topic, ".avro") {
			topic, format = strings.TrimSuffix(topic, ".avro"), ".avro"
		}
		letters[format] = append(letters[format], topic+"@"+said["offset"]+" "+said["exception.class.name"])
	}
	if got, want := slices.Sorted(slices.Values(letters[".avro"])), slices.Sorted(slices.Values(letters[""])); !slices.Equal(got, want) {
		t.Errorf("dead letters: got %v, want %v", got, want)
	}
}

// equalNumbers reports whether two texts are one number: 1000.0 is 1000.
func equalNumbers(a, b string) bool {
	x, ok := new(big.Rat).SetString(a)
	y, too := new(big.Rat).SetString(b)
	return ok && too && x.Cmp(y) == 0
}

// recording is a record as the engine wrote it.
type recording struct {
	Topic      string
	Key, Value *string
}

func recordings(t *testing.T, file string) (all []recording) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return all
}

// asAvro is what the Avro converter writes where the JSON converter wrote text.
func (w *world) asAvro(registry *sr.Client, subject, text string) []byte {
	w.t.Helper()
	var wrapped struct {
		Schema  map[string]any
		Payload json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &wrapped); err != nil {
		w.t.Fatal(err)
	}
	schema := string(jsonOf(w.t, avroSchema(wrapped.Schema, map[string]bool{}, true)))
	// Logical types do not change what is written, and the payload is not in them.
	physical := string(jsonOf(w.t, avroSchema(wrapped.Schema, map[string]bool{}, false)))
	return framed(w.registered(registry, w.prefix+subject, schema, sr.TypeAvro), avroOf(w.t, physical, wrapped.Payload))
}

var avroTypes = map[string]string{
	"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
	"boolean": "boolean", "string": "string", "bytes": "bytes",
}

// logicals are Connect's own types that have a counterpart in Avro.
var logicals = map[string]string{
	"org.apache.kafka.connect.data.Decimal": "decimal", "org.apache.kafka.connect.data.Date": "date",
	"org.apache.kafka.connect.data.Time": "time-millis", "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}

// avroSchema is the Avro schema that Connect's converters make of a Connect
// schema: names and parameters stand beside the type, what is optional is a
// union with null. A record is written out where it comes first.
func avroSchema(connect map[string]any, seen map[string]bool, logical bool) any {
	name, _ := connect["name"].(string)
	is := map[string]any{}
	switch kind := connect["type"].(string); kind {
	case "struct":
		is["type"], is["name"] = "record", name
		if name == "" {
			is["name"] = "ConnectDefault"
		}
		if seen[is["name"].(string)] {
			return nullable(connect, is["name"])
		}
		seen[is["name"].(string)] = true
		fields := []any{}
		for _, f := range connect["fields"].([]any) {
			field := f.(map[string]any)
			made := map[string]any{"name": field["field"], "type": avroSchema(field, seen, logical)}
			if field["optional"] == true {
				made["default"] = nil
			}
			fields = append(fields, made)
		}
		is["fields"] = fields
	case "array":
		is["type"], is["items"] = "array", avroSchema(connect["items"].(map[string]any), seen, logical)
	case "map":
		is["type"], is["values"] = "map", avroSchema(connect["values"].(map[string]any), seen, logical)
	default:
		is["type"] = avroTypes[kind]
	}
	if name != "" {
		is["connect.name"] = name
	}
	if version := connect["version"]; version != nil {
		is["connect.version"] = version
	}
	if parameters, given := connect["parameters"].(map[string]any); given {
		is["connect.parameters"] = parameters
		if scale, decimal := parameters["scale"]; decimal && logical {
			is["scale"], is["precision"] = json.Number(scale.(string)), 64
		}
	}
	if logicals[name] != "" && logical {
		is["logicalType"] = logicals[name]
	}
	return nullable(connect, is)
}

func nullable(connect map[string]any, is any) any {
	if connect["optional"] == true {
		return []any{"null", is}
	}
	return is
}
