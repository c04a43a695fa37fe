package schemas

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoReader reads values straight from Protobuf's wire encoding, along the
// compiled writer schema. What comes in several parts is put together as
// Protobuf wants it: the last scalar counts, messages are merged, lists follow
// each other. Fields that the schema does not know are skipped.
//
// It keeps its working memory between calls: one goroutine's own.
type protoReader struct {
	binaryReader

	growing map[*Value][]Field // lists and maps that came in pieces, with room for more
}

var (
	errTag     = errors.New("not a field")
	errParts   = errors.New("a value of a well-known type comes in two parts")
	errIndexes = errors.New("names a message that its schema does not have")
)

// decode reads one message that takes all of data. Where in the schema's file the
// message is, the indexes say: those given, or if they are nil those that data begins
// with.
func (r *protoReader) decode(file protoFile, indexes, data []byte) (v Value, err error) {
	var m *protoMessage
	if indexes != nil {
		r.begin(indexes)
		if m, err = r.indexes(file); err == nil && r.at < len(indexes) {
			err = errTrailing
		}
		if err != nil {
			return v, &DecodeError{Format: string(FormatProtobuf), Offset: nowhere, Rule: "the header that names its schema: " + err.Error()}
		}
	}
	r.begin(data)
	if m == nil {
		m, err = r.indexes(file)
	}
	if err == nil {
		err = r.message(m, &v, len(data), 1)
	}
	r.growing = nil
	return r.end(FormatProtobuf, v, err)
}

// indexes reads a count and that many zig-zag numbers, each the place of a
// message in the one before; a count of zero is short for the file's first.
func (r *protoReader) indexes(file protoFile) (*protoMessage, error) {
	count, err := r.varint(len(r.data))
	if err != nil {
		return nil, err
	}
	n := protowire.DecodeZigZag(count)
	among := []*protoMessage(file)
	if n == 0 && len(among) > 0 {
		return among[0], nil
	}
	if n < 1 || n > maxDepth {
		return nil, errIndexes
	}
	var m *protoMessage
	for range n {
		index, err := r.varint(len(r.data))
		if err != nil {
			return nil, err
		}
		i := protowire.DecodeZigZag(index)
		if i < 0 || i >= int64(len(among)) {
			return nil, errIndexes
		}
		m = among[i]
		among = m.nested
	}
	return m, nil
}

// message reads up to end into out, which may hold an earlier part of it.
func (r *protoReader) message(m *protoMessage, out *Value, end, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if out.kind == Absent {
		members, err := r.members(len(m.fields))
		if err != nil {
			return err
		}
		for i := range m.fields {
			members[i] = Field{Name: m.fields[i].name, Value: m.fields[i].unset}
		}
		*out = ObjectValue(members)
	} else if m.means != nil {
		return errParts
	} else if err := r.again(m, out.Items()); err != nil {
		return err
	}
	for r.at < end {
		if err := r.field(m, out.Items(), end, depth); err != nil {
			return err
		}
	}
	members := out.Items()
	for i := range m.fields {
		if m.fields[i].mapped {
			members[i].Value = ObjectValue(lastOf(members[i].Value.Items()))
		}
	}
	if m.means != nil {
		*out = m.means(&r.text, *out)
	}
	return nil
}

// again counts the maps' entries that a further part of the message has read once more.
func (r *protoReader) again(m *protoMessage, members []Field) error {
	for i := range m.fields {
		if m.fields[i].mapped {
			r.room -= len(members[i].Value.Items())
		}
	}
	if r.room < 0 {
		return errMany
	}
	return nil
}

// field reads one field, or all that follow of a repeated one.
func (r *protoReader) field(m *protoMessage, members []Field, end, depth int) error {
	start := r.at
	number, wire, n := protowire.ConsumeTag(r.data[r.at:end])
	if n < 0 || number > protowire.MaxValidNumber {
		return errTag
	}
	r.at += n
	f := m.numbered(number)
	switch {
	case f == nil || !f.takes(wire):
		n := protowire.ConsumeFieldValue(number, wire, r.data[r.at:end])
		if n < 0 {
			return errTag
		}
		r.at += n
		return nil
	case f.list || f.mapped:
		return r.repeated(f, &members[f.slot].Value, r.data[start:r.at], wire, end, depth)
	}
	for _, other := range f.oneof {
		members[other].Value = Value{}
	}
	if f.message == nil {
		members[f.slot].Value = Value{}
	}
	return r.single(f, &members[f.slot].Value, end, depth)
}

// repeated reads the elements of a list or the entries of a map as long as they
// follow each other under the same tag.
func (r *protoReader) repeated(f *protoField, out *Value, tag []byte, wire protowire.Type, end, depth int) error {
	base := len(r.memory.open)
	for {
		if err := r.elements(f, wire, end, depth); err != nil {
			return err
		}
		if !bytes.HasPrefix(r.data[r.at:end], tag) {
			break
		}
		r.at += len(tag)
	}
	if out.size == 0 {
		*out = itemsValue(out.kind, r.memory.keep(base))
		return nil
	}
	// A list in pieces, with other fields between them. It grows by more than a
	// piece at a time, or many small ones would copy each other again and again.
	list, known := r.growing[out]
	if !known {
		list = slices.Clone(out.Items())
	}
	list = append(list[:out.size], r.memory.open[base:]...) // of a map less than there was: the last entries of one name
	r.memory.close(base)
	if r.growing == nil {
		r.growing = map[*Value][]Field{}
	}
	r.growing[out] = list
	*out = itemsValue(out.kind, list)
	return nil
}

// elements reads one element, or a packed list of them.
func (r *protoReader) elements(f *protoField, wire protowire.Type, end, depth int) (err error) {
	packed := wire == protowire.BytesType && f.wire != protowire.BytesType
	if packed {
		if end, err = r.length(end); err != nil {
			return err
		}
	}
	for once := true; once || packed; once = false {
		if packed && r.at >= end {
			return nil
		}
		if r.room--; r.room < 0 {
			return errMany
		}
		var element Field
		if f.mapped {
			element, err = r.entry(f, end, depth)
		} else {
			err = r.single(f, &element.Value, end, depth)
		}
		if err != nil {
			return err
		}
		r.memory.open = append(r.memory.open, element)
	}
	return nil
}

// entry reads one entry of a map: a message of a key and a value.
func (r *protoReader) entry(f *protoField, end, depth int) (Field, error) {
	var pair Value
	if err := r.single(f, &pair, end, depth); err != nil {
		return Field{}, err
	}
	key, value := pair.Items()[0].Value, pair.Items()[1].Value
	if value.kind == Absent { // a message that is not there is an empty one
		at := r.at
		if err := r.message(f.message.fields[1].message, &value, at, depth+1); err != nil {
			return Field{}, err
		}
	}
	return Field{Name: key.Text(), Value: value}, nil
}

// lastOf keeps, of entries of one name, the last.
func lastOf(entries []Field) []Field {
	if !repeats(entries) {
		return entries
	}
	at := make(map[string]int, len(entries))
	kept := entries[:0]
	for _, e := range entries {
		if i, seen := at[e.Name]; seen {
			kept[i] = e
			continue
		}
		at[e.Name] = len(kept)
		kept = append(kept, e)
	}
	return kept
}

// single reads one value of the field's type.
func (r *protoReader) single(f *protoField, out *Value, end, depth int) error {
	var u uint64
	var n int
	switch f.wire {
	case protowire.VarintType:
		u, n = protowire.ConsumeVarint(r.data[r.at:end])
	case protowire.Fixed32Type:
		var narrow uint32
		narrow, n = protowire.ConsumeFixed32(r.data[r.at:end])
		u = uint64(narrow)
	case protowire.Fixed64Type:
		u, n = protowire.ConsumeFixed64(r.data[r.at:end])
	case protowire.StartGroupType:
		group, n := protowire.ConsumeGroup(f.number, r.data[r.at:end])
		if n < 0 {
			return errTag
		}
		after := r.at + n
		err := r.message(f.message, out, r.at+len(group), depth+1)
		if err == nil {
			r.at = after
		}
		return err
	default:
		stop, err := r.length(end)
		if err != nil {
			return err
		}
		if f.message != nil {
			return r.message(f.message, out, stop, depth+1)
		}
		return r.octets(f, out, stop)
	}
	if n < 0 {
		return errShort
	}
	r.at += n
	*out = r.scalar(f, u)
	return nil
}

// octets reads text or bytes up to end.
func (r *protoReader) octets(f *protoField, out *Value, end int) error {
	if f.kind == protoreflect.BytesKind {
		*out = r.text.base64(r.data[r.at:end])
	} else {
		*out = StringValue(r.text.record[r.at:end])
		if !utf8.ValidString(out.Text()) {
			return errUTF8
		}
	}
	r.at = end
	return nil
}

// scalar is what a varint or the bits of a fixed type mean to the field.
func (r *protoReader) scalar(f *protoField, u uint64) Value {
	i := int64(u)
	switch f.kind {
	case protoreflect.BoolKind:
		return BoolValue(u != 0)
	case protoreflect.EnumKind:
		if f.null {
			return NullValue()
		}
		if name, ok := f.symbols[int32(u)]; ok {
			return StringValue(name)
		}
		i = int64(int32(u))
	case protoreflect.FloatKind:
		return r.text.float(float64(math.Float32frombits(uint32(u))), 32)
	case protoreflect.DoubleKind:
		return r.text.float(math.Float64frombits(u), 64)
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		i = int64(int32(u))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		i = int64(uint32(u))
	case protoreflect.Sint32Kind:
		i = protowire.DecodeZigZag(u & math.MaxUint32)
	case protoreflect.Sint64Kind:
		i = protowire.DecodeZigZag(u)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if u > math.MaxInt64 {
			return NumberValue(r.text.keep(strconv.AppendUint(r.text.scratch[:0], u, 10)))
		}
	}
	return NumberValue(r.text.integer(i))
}

func (r *protoReader) varint(end int) (uint64, error) {
	u, n := protowire.ConsumeVarint(r.data[r.at:end])
	if n < 0 {
		return 0, errShort
	}
	r.at += n
	return u, nil
}

// length reads a length and tells where what it belongs to ends.
func (r *protoReader) length(end int) (int, error) {
	n, err := r.varint(end)
	if err != nil {
		return 0, err
	}
	if n > uint64(end-r.at) {
		return 0, errLength
	}
	return r.at + int(n), nil
}
