package schemas

import (
	"context"
	"embed"
	"io"
	"io/fs"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoWriter is the file of a Protobuf schema.
type protoWriter struct {
	messages []*protoMessage // in the file's order
}

func (*protoWriter) format() Format { return FormatProtobuf }

func (w *protoWriter) read(d *wire, payload []byte) (Value, error) {
	return d.proto.decode(w, payload)
}

// protoMessage is a message type made for reading. A message that holds itself
// is a cycle of pointers.
type protoMessage struct {
	nested []*protoMessage // defined inside it, in the file's order
	fields []protoField    // in the file's order, which is their slot
	near   []*protoField   // by number, the low ones
	far    map[protowire.Number]*protoField
	means  conversion // of a well-known type; nil: the object it is
}

// protoField is one field of a message.
type protoField struct {
	name    string
	number  protowire.Number
	slot    int
	kind    protoreflect.Kind
	wire    protowire.Type // of one value, not of a packed list
	list    bool
	mapped  bool             // a map, whose entries are messages
	null    bool             // an enum that has nothing but null
	message *protoMessage    // of messages, groups and entries
	symbols map[int32]string // of enums
	unset   Value            // where the message does not carry the field
	rivals  []int            // slots of the other fields of its oneof
}

// maxNear bounds the numbers that are found without a map.
const maxNear = 128

func (m *protoMessage) field(n protowire.Number) *protoField {
	if int(n) < len(m.near) {
		return m.near[n]
	}
	return m.far[n]
}

// takes reports whether a value of that wire type can be the field's: a list of
// scalars may be packed or not, whatever the schema says. Others are skipped as
// if the schema did not know them.
func (f *protoField) takes(wire protowire.Type) bool {
	packable := f.list && f.wire != protowire.BytesType && f.wire != protowire.StartGroupType
	return wire == f.wire || packable && wire == protowire.BytesType
}

// known are files that registries take for granted and do not list among a
// schema's references, in the parts that matter for reading. Google's own come
// with the compiler.
//
//go:embed protos
var known embed.FS

// parseProtobuf compiles the text of a file; parts are the files it imports.
func parseProtobuf(ctx context.Context, text string, parts map[string]string) (writer, error) {
	main := "writer.proto"
	for parts[main] != "" {
		main = "_" + main
	}
	files := &protocompile.SourceResolver{Accessor: func(path string) (io.ReadCloser, error) {
		source, ok := parts[path]
		switch {
		case path == main:
			source = text
		case !ok:
			data, err := fs.ReadFile(known, "protos/"+path)
			if err != nil {
				return nil, fs.ErrNotExist
			}
			source = string(data)
		}
		return io.NopCloser(strings.NewReader(source)), nil
	}}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(files), MaxParallelism: 1}
	compiled, err := compiler.Compile(ctx, main)
	if err != nil {
		return nil, err
	}
	c := protoCompiler{known: map[protoreflect.FullName]*protoMessage{}}
	return &protoWriter{c.all(compiled[0].Messages())}, nil
}

type protoCompiler struct {
	known map[protoreflect.FullName]*protoMessage
}

func (c *protoCompiler) all(ds protoreflect.MessageDescriptors) []*protoMessage {
	ms := make([]*protoMessage, ds.Len())
	for i := range ms {
		ms[i] = c.message(ds.Get(i))
	}
	return ms
}

func (c *protoCompiler) message(d protoreflect.MessageDescriptor) *protoMessage {
	if m := c.known[d.FullName()]; m != nil {
		return m
	}
	m := &protoMessage{means: conversions[d.FullName()], far: map[protowire.Number]*protoField{}}
	c.known[d.FullName()] = m
	m.fields = make([]protoField, d.Fields().Len())
	slots := map[protoreflect.FullName]int{}
	for i := range m.fields {
		m.fields[i] = c.field(d.Fields().Get(i))
		f := &m.fields[i]
		f.slot = i
		slots[d.Fields().Get(i).FullName()] = i
		if f.number >= maxNear {
			m.far[f.number] = f
			continue
		}
		for int(f.number) >= len(m.near) {
			m.near = append(m.near, nil)
		}
		m.near[f.number] = f
	}
	for i := range m.fields {
		oneof := d.Fields().Get(i).ContainingOneof()
		for j := 0; oneof != nil && j < oneof.Fields().Len(); j++ {
			if rival := slots[oneof.Fields().Get(j).FullName()]; rival != i {
				m.fields[i].rivals = append(m.fields[i].rivals, rival)
			}
		}
	}
	m.nested = c.all(d.Messages())
	return m
}

func (c *protoCompiler) field(d protoreflect.FieldDescriptor) protoField {
	f := protoField{name: nameOf(d), number: d.Number(), kind: d.Kind(), list: d.IsList(), mapped: d.IsMap(), wire: wireOf(d.Kind())}
	if d.Message() != nil {
		f.message = c.message(d.Message())
	}
	if e := d.Enum(); e != nil {
		f.null = e.FullName() == "google.protobuf.NullValue"
		f.symbols = make(map[int32]string, e.Values().Len())
		for i := e.Values().Len() - 1; i >= 0; i-- { // of two names for one number the first counts
			f.symbols[int32(e.Values().Get(i).Number())] = string(e.Values().Get(i).Name())
		}
	}
	f.unset = c.unset(d, &f)
	return f
}

// unset is what the absence of a field means. A field that can tell that it was
// not set is absent; one that cannot has its type's zero, which writers do not
// send, and a list or map is empty.
func (c *protoCompiler) unset(d protoreflect.FieldDescriptor, f *protoField) Value {
	switch {
	case f.mapped:
		return ObjectValue(nil)
	case f.list:
		return ListValue(nil)
	case f.message != nil || d.HasPresence() && !d.ContainingMessage().IsMapEntry():
		return Value{}
	}
	switch d.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return StringValue("")
	case protoreflect.BoolKind:
		return BoolValue(false)
	case protoreflect.EnumKind:
		if f.null {
			return NullValue()
		}
		return StringValue(string(d.Enum().Values().Get(0).Name()))
	}
	return NumberValue("0")
}

// nameOf is a field's name as the file writes it; a json_name that somebody
// chose goes before it.
func nameOf(d protoreflect.FieldDescriptor) string {
	name := string(d.Name())
	if d.JSONName() != jsonName(name) {
		return d.JSONName()
	}
	return name
}

// jsonName is the json_name that a field has by itself.
func jsonName(name string) string {
	var b strings.Builder
	upper := false
	for _, c := range []byte(name) {
		switch {
		case c == '_':
			upper = true
			continue
		case upper && c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		b.WriteByte(c)
	}
	return b.String()
}

func wireOf(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}
