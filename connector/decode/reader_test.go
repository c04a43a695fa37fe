package decode

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// inProcess is a registry without a network.
type inProcess struct{ *srfake.Registry }

func (p inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, req)
	return w.Result(), nil
}

// reading decodes records of the topics as the mappings say.
func reading(t *testing.T, registry *srfake.Registry, mappings ...router.Mapping) func(*kafka.Record) (*router.Record, error) {
	t.Helper()
	r, problems := router.Compile(mappings)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	writers, err := schemas.NewRegistry(schemas.RegistryConfig{
		URL: "http://registry", HTTP: &http.Client{Transport: inProcess{registry}}, Log: slog.New(slog.DiscardHandler),
		Backoff: func(int) time.Duration { return time.Millisecond },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(writers.Close)
	reader := NewReader(r, writers)
	return WaitForSchemas(t.Context(), writers, reader.Decode)
}

// refuses answers each request with a status.
type refuses int

func (status refuses) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(int(status))
	return w.Result(), nil
}

// A command says what the registry answers as soon as that is likely to stay.
func TestACommandDoesNotWaitForARegistryThatRefuses(t *testing.T) {
	for status, want := range map[int]time.Duration{404: 2 * time.Second, 401: 2 * time.Second, 429: time.Minute, 503: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			writers, err := schemas.NewRegistry(schemas.RegistryConfig{
				URL: "http://registry", HTTP: &http.Client{Transport: refuses(status)}, Log: slog.New(slog.DiscardHandler),
				Backoff: func(int) time.Duration { return time.Second },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer writers.Close()
			decoder := writers.Decoder(schemas.FormatAvro)
			decode := func(r *kafka.Record) (*router.Record, error) {
				_, err := Value(decoder, r)
				return nil, err
			}
			record := &kafka.Record{Headers: headers(schemas.HeaderValueSchema + "=\x010123456789abcdef"), Value: []byte{4}}
			for command, most := range map[bool]time.Duration{true: want, false: time.Minute} {
				wait := WaitForSchemas
				if command {
					wait = AskForSchemas
				}
				began := time.Now()
				_, err := wait(t.Context(), writers, decode)(record)
				if took := time.Since(began); took < most || took > most+time.Second {
					t.Errorf("%d, command %v: waited %v, want %v", status, command, took, most)
				}
				if err == nil || !strings.HasPrefix(err.Error(), "schema registry: GET http://registry/schemas/guids/") || !errors.Is(err, schemas.ErrSchemaUnavailable) {
					t.Errorf("%d, command %v: got %v, want the registry's answer first", status, command, err)
				}
				if status == 404 && !strings.Contains(err.Error(), "upgrade it") {
					t.Errorf("got %v, want what to do", err)
				}
			}
		})
	}
}

func mapping(topic, format, envelope string) router.Mapping {
	return router.Mapping{
		Name: topic, Topics: []string{topic}, Format: format, Envelope: envelope, CustomTable: topic, Key: "businessKey",
		Fields: []router.Field{{From: "a", To: "businessKey"}}, Routes: []router.Route{{Lane: "immediate"}},
	}
}

// headers are NAME=VALUE, with blanks between them.
func headers(text string) (all []kgo.RecordHeader) {
	for h := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(h, "=")
		all = append(all, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return all
}

func framed(id int, payload string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(id))) + payload
}

const avroInt = `{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}`

func TestBothModesOfAnEventReadTheSame(t *testing.T) {
	registry := srfake.NewRegistry()
	registry.SeedSchema("avro-value", 1, 1, sr.Schema{Schema: avroInt})
	registry.SeedSchema("json-schema-value", 1, 2, sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON})
	registry.SeedSchema("protobuf-value", 1, 3, sr.Schema{Schema: `syntax = "proto3"; message A { int32 a = 1; }`, Type: sr.TypeProtobuf})
	const (
		attributes = "ce_specversion=1.0 ce_id=1 ce_source=/shop ce_type=sold ce_subject=S7"
		head       = `{"specversion":"1.0","id":"1","source":"/shop","type":"sold","subject":"S7","datacontenttype":"application/x"`
	)
	for _, c := range []struct{ format, data string }{
		{"json", `{"a":7}`}, {"avro", framed(1, "\x0e")}, {"json-schema", framed(2, `{"a":7}`)}, {"protobuf", framed(3, "\x00\x08\x07")},
	} {
		decode := reading(t, registry, mapping("t", c.format, router.CloudEvents))
		encoded := base64.StdEncoding.EncodeToString([]byte(c.data))
		for name, record := range map[string]*kafka.Record{
			"binary":                          {Headers: headers(attributes + " content-type=application/x"), Value: []byte(c.data)},
			"structured, base64":              {Headers: headers("content-type=application/cloudevents+json"), Value: []byte(head + `,"data_base64":"` + encoded + `"}`)},
			"structured, JSON":                {Headers: headers("content-type=application/cloudevents+json"), Value: []byte(head + `,"data":{"a":7}}`)},
			"structured, told by its members": {Headers: headers("ce_type=other"), Value: []byte(" " + head + `,"data":{"a":7}}`)},
		} {
			record.Topic = "t"
			got, err := decode(record)
			if err != nil {
				t.Errorf("%s, %s: %v", c.format, name, err)
				continue
			}
			said := map[string]string{}
			for _, h := range got.Headers { // the last one counts
				said[h.Key] = string(h.Value)
			}
			if value := string(got.Value.AppendJSON(nil)); value != `{"a":7}` || got.Tombstone {
				t.Errorf("%s, %s: got the value %s, want {\"a\":7}", c.format, name, value)
			}
			delete(said, "content-type")
			const want = "map[ce_datacontenttype:application/x ce_id:1 ce_source:/shop ce_specversion:1.0 ce_subject:S7 ce_type:sold]"
			if attributes := fmt.Sprint(said); attributes != want {
				t.Errorf("%s, %s:\n got %s\nwant %s", c.format, name, attributes, want)
			}
		}
	}
}

func TestAnEventMayHaveNoDataOrNoValue(t *testing.T) {
	decode := reading(t, srfake.NewRegistry(), mapping("t", "json", router.CloudEvents))
	const attributes = "ce_specversion=1.0 ce_id=1 ce_source=/shop ce_type=sold"
	for name, c := range map[string]struct {
		headers string
		value   []byte
		want    string
	}{
		"structured without data":  {"", []byte(`{"specversion":"1.0","id":"1","source":"/","type":"sold"}`), "null"},
		"binary without data":      {attributes, []byte{}, "null"},
		"a tombstone":              {"", nil, "tombstone"},
		"a tombstone of an event":  {attributes, nil, "tombstone"},
		"a structured tombstone":   {"content-type=application/cloudevents+json", nil, "tombstone"},
		"a batch":                  {"", []byte(`[]`), "cloudevents: is a batch of events"},
		"no event":                 {"", []byte(`{"a":1}`), "cloudevents: is no event"},
		"no JSON":                  {"", []byte(`sold`), "json: offset 0: not valid JSON"},
		"data that is no JSON":     {attributes, []byte(`sold`), "json: offset 0: not valid JSON"},
		"encoded data, no JSON":    {"", []byte(`{"specversion":"1.0","id":"1","source":"/","type":"sold","data_base64":"c29sZA=="}`), "json: offset 0: not valid JSON"},
		"an event format not read": {"content-type=application/cloudevents+protobuf", []byte(`{}`), "cloudevents: content-type: must be"},
	} {
		record, err := decode(&kafka.Record{Topic: "t", Headers: headers(c.headers), Value: c.value})
		var got string
		switch {
		case err != nil:
			got = err.Error()
		case record.Tombstone:
			got = "tombstone"
		default:
			got = string(record.Value.AppendJSON(nil))
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// guidHeader is the header by which a serializer names the schema of a subject's version.
func guidHeader(t *testing.T, registry *srfake.Registry, header, subject string, indexes ...byte) kgo.RecordHeader {
	t.Helper()
	client, err := sr.NewClient(sr.URLs("http://registry"), sr.HTTPClient(&http.Client{Transport: inProcess{registry}}))
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.SchemaByVersion(t.Context(), subject, 1)
	if err != nil {
		t.Fatal(err)
	}
	guid, err := hex.DecodeString(strings.ReplaceAll(found.GUID, "-", ""))
	if err != nil {
		t.Fatal(err)
	}
	return kgo.RecordHeader{Key: header, Value: slices.Concat([]byte{1}, guid, indexes)}
}

func TestAHeaderThatNamesTheSchemaWins(t *testing.T) {
	registry := srfake.NewRegistry()
	registry.SeedSchema("int", 1, 1, sr.Schema{Schema: avroInt})
	registry.SeedSchema("long", 1, 2, sr.Schema{Schema: strings.Replace(avroInt, "int", "long", 1)})
	registry.SeedSchema("j", 1, 3, sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON})
	registry.SeedSchema("p", 1, 4, sr.Schema{Schema: `syntax = "proto3"; message X {} message A { int32 a = 1; }`, Type: sr.TypeProtobuf})
	const event = `{"specversion":"1.0","id":"1","source":"/shop","type":"sold","data":{"a":7}}`
	keyed := mapping("avro", "avro", "none")
	keyed.KafkaKey = "avro"
	schemaKey, protoKey := mapping("json-schema-key", "json", "none"), mapping("protobuf-key", "json", "none")
	schemaKey.KafkaKey, protoKey.KafkaKey = "json-schema", "protobuf"
	decode := reading(t, registry, keyed, schemaKey, protoKey, mapping("json", "json", "none"), mapping("json-schema", "json-schema", "none"),
		mapping("protobuf", "protobuf", "none"), mapping("events", "avro", router.CloudEvents), mapping("whole", "json-schema", router.CloudEvents))
	value := func(subject string, indexes ...byte) kgo.RecordHeader {
		return guidHeader(t, registry, schemas.HeaderValueSchema, subject, indexes...)
	}
	key := guidHeader(t, registry, schemas.HeaderKeySchema, "int")
	for name, c := range map[string]struct {
		topic, key, value string
		headers           []kgo.RecordHeader
		want              string
	}{
		"avro":                        {"avro", "\x02", "\x0e", []kgo.RecordHeader{key, value("int")}, `{"a":7} {"a":1}`},
		"the last of two headers":     {"avro", "\x02", "\x0e", []kgo.RecordHeader{key, value("j"), value("int")}, `{"a":7} {"a":1}`},
		"a value alone":               {"avro", framed(1, "\x02"), "\x0e", []kgo.RecordHeader{value("long")}, `{"a":7} {"a":1}`},
		"a key alone":                 {"avro", "\x02", framed(1, "\x0e"), []kgo.RecordHeader{key}, `{"a":7} {"a":1}`},
		"a key in json-schema":        {"json-schema-key", framed(3, `{"a":1}`), `{"a":7}`, nil, `{"a":7} {"a":1}`},
		"a key in protobuf":           {"protobuf-key", framed(4, "\x02\x02\x08\x01"), `{"a":7}`, nil, `{"a":7} {"a":1}`},
		"a header without a value":    {"avro", "", framed(1, "\x0e"), []kgo.RecordHeader{{Key: schemas.HeaderValueSchema}}, `{"a":7} null`},
		"json-schema":                 {"json-schema", "", `{"a":7}`, []kgo.RecordHeader{value("j")}, `{"a":7} null`},
		"protobuf, its first message": {"protobuf", "", "", []kgo.RecordHeader{value("p", 0)}, `{} null`},
		"protobuf, another message":   {"protobuf", "", "\x08\x07", []kgo.RecordHeader{value("p", 2, 2)}, `{"a":7} null`},
		"json has no need of it":      {"json", "", `{"a":7}`, []kgo.RecordHeader{value("j")}, `{"a":7} null`},
		"a binary event": {
			"events", "", "\x0e",
			append(headers("ce_specversion=1.0 ce_id=1 ce_source=/shop ce_type=sold"), value("int")),
			`{"a":7} null`,
		},
		"an event written by its schema": {"whole", "", event, []kgo.RecordHeader{value("j")}, `{"a":7} null`},
		"an event in the wire format":    {"whole", "", framed(3, event), nil, `{"a":7} null`},
	} {
		got, err := decode(&kafka.Record{Topic: c.topic, Key: []byte(c.key), Value: []byte(c.value), Headers: c.headers})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if said := string(got.Value.AppendJSON(nil)) + " " + string(got.KeyValue.AppendJSON(nil)); said != c.want {
			t.Errorf("%s: got %s, want %s", name, said, c.want)
		}
	}
}
