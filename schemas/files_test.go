package schemas

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	hamba "github.com/hamba/avro/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/avro"
)

func file(t *testing.T, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(Files, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compileSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(file(t, name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	schema, err := c.Compile(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return schema
}

func instance(t *testing.T, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSamplesAndExamplesFitTheJSONSchemas(t *testing.T) {
	for name, sample := range map[string]string{
		"profile-event.schema.json": profileJSON,
		"record-event.schema.json":  recordJSON,
	} {
		schema := compileSchema(t, name)
		if err := schema.Validate(instance(t, sample)); err != nil {
			t.Errorf("%s: sample: %v", name, err)
		}
		var doc struct {
			Examples []any `json:"examples"`
		}
		if err := json.Unmarshal(file(t, name), &doc); err != nil || len(doc.Examples) == 0 {
			t.Fatalf("%s: got %d examples (%v), want at least one", name, len(doc.Examples), err)
		}
		for i, example := range doc.Examples {
			if err := schema.Validate(example); err != nil {
				t.Errorf("%s: example %d: %v", name, i, err)
			}
		}
	}
}

// The schemas promise producers what the decoders take: both must refuse alike
// what ProfileEvent and RecordEvent look at.
func TestJSONSchemasAgreeWithTheEvents(t *testing.T) {
	for _, tc := range []struct {
		schema string
		read   func(Value) (Event, error)
		texts  []string
	}{
		{"profile-event.schema.json", ProfileEvent, []string{
			`{}`, `{"op":null}`, `{"op":"patch","profileId":"p"}`, `{"op":"replace"}`, `{"key":"x"}`, `{"profileId":1}`,
			`{"attributes":null}`, `{"attributes":[]}`, `{"segments":{"a":true}}`, `{"unknown":1}`, `[]`, `null`,
		}},
		{"record-event.schema.json", RecordEvent, []string{
			`{"businessKey":"a"}`, `{"businessKey":1}`, `{"businessKey":1.5}`, `{"businessKey":true}`,
			`{"businessKey":"a","op":"create"}`, `{"businessKey":"a","op":"x"}`, `{"businessKey":"a","properties":[]}`,
			`{"businessKey":"a","properties":null}`, `{"businessKey":"a","attributes":{}}`, `"a"`,
		}},
	} {
		schema := compileSchema(t, tc.schema)
		for _, text := range tc.texts {
			_, readErr := tc.read(decode(t, text))
			schemaErr := schema.Validate(instance(t, text))
			if (readErr == nil) != (schemaErr == nil) {
				t.Errorf("%s: %s: reading got %v, schema got %v, want both to agree", tc.schema, text, readErr, schemaErr)
			}
		}
	}
}

// hamba/avro is the independent second implementation: what it encodes with a
// published schema twmb/avro must decode.
func TestAvroSamplesSurviveTwoImplementations(t *testing.T) {
	for name, sample := range map[string]any{
		"profile-event.avsc": map[string]any{
			"op":        "upsert",
			"key":       map[string]any{"map": map[string]any{"customerNumber": "C000123", "shop": int64(7)}},
			"profileId": nil,
			"attributes": map[string]any{"map": map[string]any{
				"customerNumber": "C000123",
				"age":            int64(44),
				"score":          0.5,
				"active":         true,
				"title":          nil,
				"languages":      map[string]any{"array": []any{"fr", "en"}},
			}},
			"subscriptions": map[string]any{"map": map[string]any{"newsletter": true}},
			"segments":      map[string]any{"map": map[string]any{"vip": true, "tier": "gold"}},
			"dataCollection": map[string]any{"com.github.feedsink.DataCollection": map[string]any{
				"date": "2026-11-21T10:00:00Z", "source": "shop", "way": nil,
			}},
		},
		"record-event.avsc": map[string]any{
			"op":          "delete",
			"businessKey": "4c1f0c1e",
			"properties":  map[string]any{"map": map[string]any{"orderTotal": 12.5, "status": "PAID", "open": false, "note": nil}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			writer, err := hamba.ParseBytesWithCache(file(t, name), "", &hamba.SchemaCache{})
			if err != nil {
				t.Fatalf("hamba/avro: %v", err)
			}
			encoded, err := hamba.Marshal(writer, sample)
			if err != nil {
				t.Fatalf("hamba/avro: encode: %v", err)
			}
			reader, err := avro.Parse(string(file(t, name)))
			if err != nil {
				t.Fatalf("twmb/avro: %v", err)
			}
			var decoded any
			rest, err := reader.Decode(encoded, &decoded)
			if err != nil || len(rest) != 0 {
				t.Fatalf("twmb/avro: decode: %v, %d bytes left, want none", err, len(rest))
			}
			got, want := jsonOf(t, decoded), jsonOf(t, untag(sample))
			if got != want {
				t.Errorf("decoded: got %s, want %s", got, want)
			}
		})
	}
}

// untag removes the branch names with which hamba/avro marks unions.
func untag(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	plain := make(map[string]any, len(m))
	for k, v := range m {
		if tagged, ok := v.(map[string]any); ok && len(tagged) == 1 {
			for _, inner := range tagged {
				v = inner
			}
		}
		plain[k] = untag(v)
	}
	return plain
}
