package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checked reads JSON, which says itself what it holds. check is nil where records are
// not checked against their schema.
func (d *wire) checked(check *jsonschema.Schema, payload []byte) (Value, error) {
	v, err := d.json.Decode(payload)
	if err != nil {
		if bad, ok := errors.AsType[*DecodeError](err); ok {
			bad.Format = string(FormatJSONSchema)
		}
		return Value{}, err
	}
	if check == nil {
		return v, nil
	}
	refuse := func(rule string) (Value, error) {
		return Value{}, &DecodeError{Format: string(FormatJSONSchema), Offset: nowhere, Rule: rule}
	}
	if !checkable(v) {
		return refuse("a number is larger than a schema can check")
	}
	if err := check.Validate(v.Any()); err != nil {
		return refuse(broken(err))
	}
	return v, nil
}

// checkable reports whether all numbers of v are in the validator's range.
func checkable(v Value) bool {
	if v.kind == Number {
		_, err := strconv.ParseFloat(v.Text(), 64)
		return err == nil
	}
	return !slices.ContainsFunc(v.Items(), func(f Field) bool { return !checkable(f.Value) })
}

// jsonBase is where a schema without an $id lies, as far as its references know.
const jsonBase = "registry:///"

// parseJSONSchema compiles a schema, if records are to be checked against it.
// parts are the schemas it refers to, by the names that it uses.
func parseJSONSchema(text string, parts map[string]string, check bool) (*jsonschema.Schema, error) {
	if !check {
		return nil, nil
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
	return c.Compile(main)
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
