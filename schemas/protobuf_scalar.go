package schemas

import (
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// single reads one value of the field's type.
func (r *protoReader) single(f *protoField, out *Value, end, depth int) error {
	switch f.wire {
	case protowire.VarintType:
		u, err := r.varint(end)
		if err == nil {
			*out = r.varied(f, u)
		}
		return err
	case protowire.Fixed32Type:
		u, n := protowire.ConsumeFixed32(r.data[r.at:end])
		if n < 0 {
			return errShort
		}
		r.at += n
		switch f.kind {
		case protoreflect.FloatKind:
			*out = r.text.float(float64(math.Float32frombits(u)), 32)
		case protoreflect.Fixed32Kind:
			*out = NumberValue(r.text.integer(int64(u)))
		default:
			*out = NumberValue(r.text.integer(int64(int32(u))))
		}
		return nil
	case protowire.Fixed64Type:
		u, n := protowire.ConsumeFixed64(r.data[r.at:end])
		if n < 0 {
			return errShort
		}
		r.at += n
		if f.kind == protoreflect.DoubleKind {
			*out = r.text.float(math.Float64frombits(u), 64)
			return nil
		}
		*out = r.wide(u, f.kind == protoreflect.Fixed64Kind)
		return nil
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
	}
	stop, err := r.length(end)
	if err != nil {
		return err
	}
	if f.message != nil {
		return r.message(f.message, out, stop, depth+1)
	}
	return r.octets(f, out, stop)
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

// varied is what a varint means to the field.
func (r *protoReader) varied(f *protoField, u uint64) Value {
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
		return NumberValue(r.text.integer(int64(int32(u))))
	case protoreflect.Int32Kind:
		return NumberValue(r.text.integer(int64(int32(u))))
	case protoreflect.Uint32Kind:
		return NumberValue(r.text.integer(int64(uint32(u))))
	case protoreflect.Sint32Kind:
		return NumberValue(r.text.integer(protowire.DecodeZigZag(u & math.MaxUint32)))
	case protoreflect.Sint64Kind:
		return NumberValue(r.text.integer(protowire.DecodeZigZag(u)))
	}
	return r.wide(u, f.kind == protoreflect.Uint64Kind)
}

func (r *protoReader) wide(u uint64, unsigned bool) Value {
	if unsigned && u > math.MaxInt64 {
		return NumberValue(r.text.keep(strconv.AppendUint(r.text.scratch[:0], u, 10)))
	}
	return NumberValue(r.text.integer(int64(u)))
}

func (r *protoReader) members(n int) ([]Field, error) {
	if r.room -= n; r.room < 0 {
		return nil, errMany
	}
	return r.memory.take(n), nil
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
