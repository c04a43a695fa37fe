package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/test/certs"
)

var schemaFile = filepath.Join("..", "..", "schemas", "config.schema.json")

func schemaDocument(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return document.(map[string]any)
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.schema.json", schemaDocument(t)); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// schemaKeys lists the paths of a schema's properties with their schemas.
func schemaKeys(document, schema map[string]any, path string, found map[string]map[string]any) {
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		schemaKeys(document, document["$defs"].(map[string]any)[name].(map[string]any), path, found)
	}
	alternatives, _ := schema["anyOf"].([]any)
	for _, either := range alternatives {
		schemaKeys(document, either.(map[string]any), path, found)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		schemaKeys(document, items, path+"[]", found)
	}
	properties, _ := schema["properties"].(map[string]any)
	for key, below := range properties {
		found[join(path, key)] = below.(map[string]any)
		schemaKeys(document, below.(map[string]any), join(path, key), found)
	}
}

// structKeys lists the paths of a type's keys with their default values.
func structKeys(v reflect.Value, path string, found map[string]any) {
	switch {
	case v.Kind() == reflect.Pointer:
		structKeys(reflect.Zero(v.Type().Elem()), path, found)
	case v.Kind() == reflect.Slice:
		item := reflect.New(v.Type().Elem()).Elem()
		if item.Type() == reflect.TypeFor[router.Mapping]() {
			usual := Config{Mappings: []router.Mapping{mappingDefaults()}}
			usual.usualReserve()
			item.Set(reflect.ValueOf(usual.Mappings[0]))
		}
		structKeys(item, path+"[]", found)
	case v.Kind() == reflect.Struct && wantsBlock(v.Type()):
		for i, key := range keysOf(v.Type()) {
			found[join(path, key)] = v.Field(i).Interface()
			structKeys(v.Field(i), join(path, key), found)
		}
	}
}

func TestSchemaHasTheKeysAndDefaultsOfTheStructs(t *testing.T) {
	document := schemaDocument(t)
	inSchema, inStructs := map[string]map[string]any{}, map[string]any{}
	schemaKeys(document, document, "", inSchema)
	structKeys(reflect.ValueOf(defaults()), "", inStructs)
	for path := range inSchema {
		if _, ok := inStructs[path]; !ok {
			t.Errorf("%s: in the schema only", path)
		}
	}
	for path, value := range inStructs {
		schema, ok := inSchema[path]
		if !ok {
			t.Errorf("%s: not in the schema", path)
			continue
		}
		if description, _ := schema["description"].(string); description == "" {
			t.Errorf("%s: no description", path)
		}
		want, said := schema["default"]
		if zero := reflect.ValueOf(value).IsZero(); !said && !zero && !wantsBlock(reflect.TypeOf(value)) {
			t.Errorf("%s: no default, want %v", path, value)
		}
		if said && !sameDefault(want, value) {
			t.Errorf("%s: default %v, want %v", path, want, value)
		}
	}
}

// sameDefault compares a default as the schema writes it with the struct's.
func sameDefault(written, value any) bool {
	text := fmt.Sprint(written)
	switch value := value.(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		return err == nil && d == value
	case router.Bytes:
		var size router.Bytes
		message, _ := parseBytes(text, &size)
		return message == "" && size == value
	}
	return text == fmt.Sprint(value)
}

// asJSON is a YAML file as the schema sees it.
func asJSON(t *testing.T, data []byte) any {
	t.Helper()
	converted, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(converted))
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func TestExamplesWorkAndMatchTheSchema(t *testing.T) {
	schema := compiledSchema(t)
	files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "examples", "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: got %v, %v", files, err)
	}
	secrets := t.TempDir()
	certs.ExampleFiles(t, secrets, "secret")
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"FEEDSINK_SECRETS": secrets, "FEEDSINK_API_KEY": "key"}[name]
		return value, ok
	}
	for _, file := range append(files, filepath.Join("testdata", "whole.yaml")) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(file, data, env); err != nil {
			t.Error(err)
		}
		if err := schema.Validate(asJSON(t, data)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestSchemaRefusesWhatParseRefuses(t *testing.T) {
	schema := compiledSchema(t)
	whole, err := os.ReadFile(filepath.Join("testdata", "whole.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to string }{
		{"startAt: earliest", "startAt: newest"},
		{"timeout: 30s\n  concurrency", "timeout: 30\n  concurrency"},
		{"maxBytes: 20GiB", "maxBytes: 20 GO"},
		{"max: 256", "max: lots"},
		{"max: 256", "max: 0"},
		{"  entity: acme\n", ""},
		{"  group:", "  groop:"},
		{"  apiKey:", "  apiKeyFile: /none\n  apiKey:"},
		{"brokers: [localhost:9092]", "brokers: []"},
		{"enabled: false", "enabled: maybe"},
		{"lane: immediate}", "lane: immediate, weight: 0}"},
	} {
		data := []byte(strings.Replace(string(whole), c.from, c.to, 1))
		if bytes.Equal(data, whole) {
			t.Fatalf("%q is not in the file", c.from)
		}
		if err := schema.Validate(asJSON(t, data)); err == nil {
			t.Errorf("%q: the schema takes it", c.to)
		}
		if _, err := Parse("whole.yaml", data, func(string) (string, bool) { return "key", true }); err == nil {
			t.Errorf("%q: Parse takes it", c.to)
		}
	}
}

func TestSuggestionsNameTheClosestKey(t *testing.T) {
	for key, want := range map[string]string{
		"sesionTimeout":   "did you mean kafka.sessionTimeout?",
		"session-timeout": "did you mean kafka.sessionTimeout?",
		"GROUP":           "did you mean kafka.group?",
		"slotsPerDay":     "did you mean mappings[].imports.slotsPerDay?",
		"zz":              "the keys here are " + strings.Join(keysOf(reflect.TypeFor[Kafka]()), ", "),
	} {
		if got, _ := suggest("kafka", key, reflect.TypeFor[Kafka]()); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if got := problem.Edits("abcd", "bacd"); got != 1 {
		t.Errorf("a swap: got %d edits, want 1", got)
	}
	if got := problem.Edits("kitten", "sitting"); got != 3 {
		t.Errorf("kitten, sitting: got %d edits, want 3", got)
	}
}
