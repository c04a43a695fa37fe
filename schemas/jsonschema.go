package schemas

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// jsonWriter is a JSON Schema. What it wrote is JSON, which says itself what it
// holds.
type jsonWriter struct {
	check *jsonschema.Schema // nil: records are not checked against it
}

func (jsonWriter) format() Format { return FormatJSONSchema }

func (w jsonWriter) read(d *wire, payload []byte) (Value, error) {
	v, err := d.json.Decode(payload)
	if err != nil {
		if bad, ok := errors.AsType[*DecodeError](err); ok {
			bad.Format = string(FormatJSONSchema)
		}
		return Value{}, err
	}
	if w.check == nil {
		return v, nil
	}
	instance, ok := instanceOf(v)
	if !ok {
		return Value{}, &DecodeError{Format: string(FormatJSONSchema), Offset: nowhere, Rule: "a number is larger than a schema can check"}
	}
	if err := w.check.Validate(instance); err != nil {
		return Value{}, &DecodeError{Format: string(FormatJSONSchema), Offset: nowhere, Rule: broken(err)}
	}
	return v, nil
}

// jsonBase is where a schema without an $id lies, as far as its references know.
const jsonBase = "registry:///"

// parseJSONSchema compiles a schema that records are to be checked against.
// parts are the schemas it refers to, by the names that it uses.
func parseJSONSchema(text string, parts map[string]string, check bool) (writer, error) {
	if !check {
		return jsonWriter{}, nil
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7) // what the registry's own clients write
	c.UseLoader(jsonParts(parts))
	const main = jsonBase + "writer"
	if err := c.AddResource(main, doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile(main)
	if err != nil {
		return nil, err
	}
	return jsonWriter{schema}, nil
}

// jsonParts finds schemas among those the registry gave. Nothing else is
// loaded, neither from files nor from addresses.
type jsonParts map[string]string

// Load implements jsonschema.URLLoader.
func (p jsonParts) Load(url string) (any, error) {
	for name, text := range p {
		if url == name || strings.HasSuffix(url, "/"+name) {
			return jsonschema.UnmarshalJSON(strings.NewReader(text))
		}
	}
	return nil, fmt.Errorf("%s is not among the schema's references", url)
}

// instanceOf is v as the validator wants it; ok is false for a number beyond
// its range.
func instanceOf(v Value) (instance any, ok bool) {
	switch v.kind {
	case Number:
		if i, err := strconv.Atoi(v.Text()); err == nil {
			return i, true
		}
		f, err := strconv.ParseFloat(v.Text(), 64)
		return f, err == nil && !math.IsInf(f, 0)
	case List:
		list := make([]any, len(v.Items()))
		for i := range v.Items() {
			if list[i], ok = instanceOf(v.Items()[i].Value); !ok {
				return nil, false
			}
		}
		return list, true
	case Object:
		object := make(map[string]any, len(v.Items()))
		for i := range v.Items() {
			if object[v.Items()[i].Name], ok = instanceOf(v.Items()[i].Value); !ok {
				return nil, false
			}
		}
		return object, true
	}
	return v.Any(), true
}

// broken names the first place and keyword that a record does not fulfil. The
// validator's own messages quote the record.
func broken(err error) string {
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return "cannot be checked against its schema"
	}
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	keyword := strings.Join(e.ErrorKind.KeywordPath(), "/")
	return Invalid(strings.Join(e.InstanceLocation, "."), "breaks the rule "+strconv.Quote(keyword)+" of its schema").Error()
}
