package schemas

import (
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoFile is the file of a Protobuf schema: its messages in their order.
type protoFile []*protoMessage

// protoMessage is a message type made for reading. A message that holds itself
// is a cycle of pointers.
type protoMessage struct {
	nested []*protoMessage // defined inside it, in the file's order
	fields []protoField    // in the file's order, which is their slot
	means  conversion      // of a well-known type; nil: the object it is

	byNumber map[protowire.Number]*protoField
}

// numbered is the field of a number, nil where the schema has none. Most messages
// number their fields from 1 on, in the file's order.
func (m *protoMessage) numbered(n protowire.Number) *protoField {
	if i := uint(n) - 1; i < uint(len(m.fields)) && m.fields[i].number == n {
		return &m.fields[i]
	}
	return m.byNumber[n]
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
	oneof   []int            // slots of the other fields of its oneof
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

var errNoReference = errors.New("it is not among the references of the schema in the registry; register the schema with it")

// parseProtobuf compiles the text of a file; parts are the files it imports.
func parseProtobuf(ctx context.Context, text string, parts map[string]string) (protoFile, error) {
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
				return nil, errNoReference
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
	return protoCompiler{}.all(compiled[0].Messages()), nil
}

// protoCompiler has the messages that are made already.
type protoCompiler map[protoreflect.FullName]*protoMessage

func (c protoCompiler) all(ds protoreflect.MessageDescriptors) []*protoMessage {
	ms := make([]*protoMessage, ds.Len())
	for i := range ms {
		ms[i] = c.message(ds.Get(i))
	}
	return ms
}

func (c protoCompiler) message(d protoreflect.MessageDescriptor) *protoMessage {
	if m := c[d.FullName()]; m != nil {
		return m
	}
	m := &protoMessage{means: conversions[d.FullName()], byNumber: map[protowire.Number]*protoField{}}
	c[d.FullName()] = m
	m.fields = make([]protoField, d.Fields().Len())
	for i := range m.fields {
		field := d.Fields().Get(i)
		f := &m.fields[i]
		*f = c.field(field)
		m.byNumber[f.number] = f
		oneof := field.ContainingOneof()
		for j := 0; oneof != nil && j < oneof.Fields().Len(); j++ {
			if other := oneof.Fields().Get(j).Index(); other != i {
				f.oneof = append(f.oneof, other)
			}
		}
	}
	m.nested = c.all(d.Messages())
	return m
}

func (c protoCompiler) field(d protoreflect.FieldDescriptor) protoField {
	f := protoField{name: nameOf(d), number: d.Number(), slot: d.Index(), kind: d.Kind(), list: d.IsList(), mapped: d.IsMap(), wire: wireOf(d.Kind())}
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
	f.unset = f.absent(d)
	return f
}

// absent is what the absence of a field means. A field that can tell that it was
// not set is absent; one that cannot has its type's zero, which writers do not
// send, and a list or map is empty.
func (f *protoField) absent(d protoreflect.FieldDescriptor) Value {
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

// nameOf is a field's name as the file writes it; a json_name that the file gives
// it goes before it. Without one the compiler makes it of the name.
func nameOf(d protoreflect.FieldDescriptor) string {
	words := strings.Split(string(d.Name()), "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	if d.JSONName() != strings.Join(words, "") {
		return d.JSONName()
	}
	return string(d.Name())
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

// conversion is what a message of a well-known type says as a whole; Unreadable where
// it breaks the type's rules.
type conversion func(t *texts, v Value) Value

// conversions are the well-known types, as Protobuf's JSON mapping writes them,
// and those that Kafka Connect's converter writes.
var conversions = map[protoreflect.FullName]conversion{
	"google.protobuf.Timestamp":   convertTimestamp,
	"google.protobuf.Duration":    convertDuration,
	"google.protobuf.FieldMask":   convertFieldMask,
	"google.protobuf.Any":         convertAny,
	"google.protobuf.Struct":      only,
	"google.protobuf.ListValue":   only,
	"google.protobuf.Value":       anyOf,
	"google.protobuf.BoolValue":   only,
	"google.protobuf.StringValue": only,
	"google.protobuf.BytesValue":  only,
	"google.protobuf.Int32Value":  only,
	"google.protobuf.Int64Value":  only,
	"google.protobuf.UInt32Value": only,
	"google.protobuf.UInt64Value": only,
	"google.protobuf.FloatValue":  only,
	"google.protobuf.DoubleValue": only,
	"google.type.Date":            convertDate,
	"google.type.TimeOfDay":       convertTimeOfDay,
	"confluent.type.Decimal":      convertDecimal,
}

// only is a message that is there for its one field.
func only(_ *texts, v Value) Value {
	for i := range v.Items() {
		return v.Items()[i].Value
	}
	return v // of a schema that gives a well-known name to a type of its own
}

// anyOf is the one field that is set, null without one.
func anyOf(_ *texts, v Value) Value {
	for i := range v.Items() {
		if v.Items()[i].Value.kind != Absent {
			return v.Items()[i].Value
		}
	}
	return NullValue()
}

func convertTimestamp(t *texts, v Value) Value {
	seconds, nanos := wholeOf(v, "seconds"), wholeOf(v, "nanos")
	if nanos < 0 || nanos >= perNano {
		return textValue(Unreadable, "must be a timestamp whose nanoseconds are a fraction of a second")
	}
	text, rule := appendTimestamp(t.scratch[:0], seconds, nanos, false)
	if rule != "" {
		return textValue(Unreadable, rule)
	}
	return StringValue(t.keep(text))
}

// convertDuration is seconds with a fraction and an s, such as -1.5s.
func convertDuration(t *texts, v Value) Value {
	seconds, nanos := wholeOf(v, "seconds"), wholeOf(v, "nanos")
	if nanos <= -1e9 || nanos >= 1e9 || seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 || seconds == -1<<63 {
		return textValue(Unreadable, "must be a duration whose seconds and nanoseconds have one sign, the latter a fraction of a second")
	}
	out := t.scratch[:0]
	if seconds < 0 || nanos < 0 {
		out = append(out, '-')
		seconds, nanos = -seconds, -nanos
	}
	out = appendFraction(strconv.AppendInt(out, seconds, 10), nanos)
	return StringValue(t.keep(append(out, 's')))
}

func convertFieldMask(_ *texts, v Value) Value {
	paths := make([]string, len(v.Get("paths").Items()))
	for i, path := range v.Get("paths").Items() {
		paths[i] = path.Value.Text()
	}
	return StringValue(strings.Join(paths, ","))
}

// convertAny leaves the message that is inside as base64: its type need not be
// known here.
func convertAny(_ *texts, v Value) Value {
	for i := range v.Items() {
		if v.Items()[i].Name == "type_url" {
			v.Items()[i].Name = "@type"
		}
	}
	return v
}

// convertDate is a date; one without a year or a day stays the object it is.
func convertDate(t *texts, v Value) Value {
	year, month, day := wholeOf(v, "year"), wholeOf(v, "month"), wholeOf(v, "day")
	when := time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	if year < 1 || year > 9999 || when.Month() != time.Month(month) || when.Day() != int(day) {
		return v
	}
	return StringValue(t.keep(when.AppendFormat(t.scratch[:0], time.DateOnly)))
}

func convertTimeOfDay(t *texts, v Value) Value {
	hours, minutes, seconds, nanos := wholeOf(v, "hours"), wholeOf(v, "minutes"), wholeOf(v, "seconds"), wholeOf(v, "nanos")
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || seconds < 0 || seconds > 59 || nanos < 0 || nanos >= 1e9 {
		return v
	}
	text, _ := appendClock(t.scratch[:0], ((hours*60+minutes)*60+seconds)*perNano+nanos, perNano)
	return StringValue(t.keep(text))
}

func convertDecimal(t *texts, v Value) Value {
	raw, err := base64.StdEncoding.DecodeString(v.Get("value").Text())
	if err != nil { // of a schema that gives the name to a type of its own
		return v
	}
	return t.decimal(raw, int(wholeOf(v, "scale")))
}

// wholeOf is the whole number that a member holds.
func wholeOf(v Value, name string) int64 {
	n, _ := strconv.ParseInt(v.Get(name).Text(), 10, 64)
	return n
}
