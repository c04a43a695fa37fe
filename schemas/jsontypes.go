package schemas

import "strings"

// jsonType is what a JSON Schema says of values beyond their JSON: Kafka Connect's
// converter writes a type's semantic name as title, with connect.parameters. A schema
// that refers to itself is a cycle of pointers.
type jsonType struct {
	convert convert              // nil: the value is what it is
	members map[string]*jsonType // of objects
	each    *jsonType            // elements, and members without a type of their own; nil: as they are
}

// jsonTypes reads the types of a schema; nil where it names none of Connect's.
func jsonTypes(text string) *jsonType {
	root, err := NewJSON().Decode([]byte(text))
	if err != nil {
		return nil // no converter writes such a schema
	}
	c := jsonCompiler{root: root, refs: map[string]*jsonType{}}
	if t := c.compile(root, 0); c.named {
		return t
	}
	return nil
}

// jsonCompiler has the types by the references to them.
type jsonCompiler struct {
	root  Value
	refs  map[string]*jsonType
	named bool // some type has a name of Connect's
}

func (c *jsonCompiler) compile(schema Value, depth int) *jsonType {
	if schema.kind != Object || depth > maxDepth {
		return nil
	}
	if ref := schema.Get("$ref").Text(); ref != "" {
		return c.referred(ref, depth)
	}
	t := &jsonType{convert: connectName(schema.Get("title").Text(), schema.Get("connect.parameters"))}
	described := t.convert != nil || schema.Get("properties").kind == Object || schema.Get("items").kind == Object
	if one := onlyBranch(schema); one.kind == Object && !described { // beside what is described, a branch is a rule for it
		return c.compile(one, depth+1)
	}
	c.named = c.named || t.convert != nil
	for _, property := range schema.Get("properties").Members() {
		if t.members == nil {
			t.members = map[string]*jsonType{}
		}
		t.members[property.Name] = c.compile(property.Value, depth+1)
	}
	if t.each = c.compile(schema.Get("items"), depth+1); t.each == nil {
		t.each = c.compile(schema.Get("additionalProperties"), depth+1)
	}
	return t
}

// referred is the type at a place of the same schema.
func (c *jsonCompiler) referred(ref string, depth int) *jsonType {
	if t := c.refs[ref]; t != nil {
		return t
	}
	path, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil
	}
	schema := c.root
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name != "" {
			schema = schema.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
		}
	}
	t := new(jsonType)
	c.refs[ref] = t
	if found := c.compile(schema, depth+1); found != nil {
		*t = *found
	}
	return t
}

// onlyBranch is the schema of an optional type, which is one of it and null.
func onlyBranch(schema Value) (one Value) {
	for _, key := range [...]string{"oneOf", "anyOf", "allOf"} {
		for _, branch := range schema.Get(key).Items() {
			switch {
			case branch.Value.Get("type").Text() == "null":
			case one.kind != Absent:
				return Value{} // which of them a value is only its schema's rules tell
			default:
				one = branch.Value
			}
		}
	}
	return one
}

// apply converts v, whose lists and objects it writes over.
func (t *jsonType) apply(v Value) Value {
	if t == nil {
		return v
	}
	items := v.Items()
	for i := range items {
		of, known := (*jsonType)(nil), false
		if v.kind == Object {
			of, known = t.members[items[i].Name]
		}
		if !known {
			of = t.each
		}
		items[i].Value = of.apply(items[i].Value)
	}
	if t.convert != nil {
		return t.convert(v)
	}
	return v
}
