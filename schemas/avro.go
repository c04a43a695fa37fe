package schemas

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"
)

// avroReader reads values straight from Avro's binary encoding, along the
// compiled writer schema. Neither maps nor reflection stand between the bytes
// and the values.
//
// It keeps its working memory between calls: one goroutine's own.
type avroReader struct{ binaryReader }

// decode reads one value that takes all of data.
func (r *avroReader) decode(t *avroType, data []byte) (v Value, err error) {
	r.begin(data)
	err = r.value(t, &v, 0)
	if err == nil && r.at < len(data) {
		err = errTrailing
	}
	return r.end(FormatAvro, v, err)
}

// value sets out, whatever it was.
func (r *avroReader) value(t *avroType, out *Value, depth int) (err error) {
	switch t.kind {
	case avroNull:
		*out = NullValue()
	case avroBoolean:
		err = r.boolean(out)
	case avroInt, avroLong, avroTime:
		err = r.integer(t, out)
	case avroFloat, avroDouble:
		err = r.float(t, out)
	case avroString:
		var s string
		s, err = r.str()
		*out = StringValue(s)
	case avroEnum:
		var i int64
		if i, err = r.long(); err == nil && uint64(i) >= uint64(len(t.symbols)) {
			return errSymbol
		}
		if err == nil {
			*out = StringValue(t.symbols[i])
		}
	case avroBytes, avroDecimal, avroUUID, avroDuration:
		err = r.octets(t, out)
	case avroUnion:
		i, err := r.long()
		if err != nil {
			return err
		}
		if uint64(i) >= uint64(len(t.branches)) {
			return errBranch
		}
		return r.value(t.branches[i], out, depth)
	default:
		err = r.container(t, out, depth+1)
	}
	if err == nil && t.convert != nil {
		*out = t.convert(*out)
	}
	return err
}

func (r *avroReader) container(t *avroType, out *Value, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if t.kind == avroRecord {
		members, err := r.members(len(t.fields))
		if err != nil {
			return err
		}
		for i := range t.fields {
			f := &t.fields[i]
			if members[i].Name != f.name { // the record before had the same
				members[i].Name = f.name
			}
			if f.typ.kind == avroString && f.typ.convert == nil { // most are
				s, err := r.str()
				if err != nil {
					return err
				}
				members[i].Value = StringValue(s)
				continue
			}
			if err := r.value(f.typ, &members[i].Value, depth); err != nil {
				return err
			}
		}
		*out = ObjectValue(members)
		return nil
	}
	items, err := r.blocks(t, depth)
	if err != nil {
		return err
	}
	if t.kind == avroMap {
		*out = ObjectValue(items)
	} else {
		*out = ListValue(items)
	}
	return nil
}

// blocks reads the items of an array or the entries of a map, which come in
// blocks, each with its count.
func (r *avroReader) blocks(t *avroType, depth int) (items []Field, err error) {
	for {
		count, err := r.blockCount()
		if err != nil || count == 0 {
			if t.kind == avroMap && err == nil && repeats(items) {
				err = errTwice
			}
			return items, err
		}
		block, err := r.members(count)
		if err != nil {
			return nil, err
		}
		for i := range block {
			if t.kind == avroMap {
				if block[i].Name, err = r.str(); err != nil {
					return nil, err
				}
			} else if block[i].Name != "" {
				block[i].Name = ""
			}
			if err := r.value(t.item, &block[i].Value, depth); err != nil {
				return nil, err
			}
		}
		if items == nil {
			items = block
		} else {
			items = append(items, block...)
		}
	}
}

// blockCount reads how many items the next block has. A negative count is
// followed by the block's length in bytes, which is for those who skip it.
func (r *avroReader) blockCount() (int, error) {
	count, err := r.long()
	if err == nil && count < 0 {
		count = -count
		_, err = r.length()
	}
	switch {
	case err != nil:
		return 0, err
	case uint64(count) > maxValues: // also the one count that has no positive
		return 0, errMany
	}
	return int(count), nil
}

func (r *avroReader) boolean(out *Value) error {
	if r.at >= len(r.data) {
		return errShort
	}
	b := r.data[r.at]
	if b > 1 {
		return errBoolean
	}
	r.at++
	*out = BoolValue(b == 1)
	return nil
}

func (r *avroReader) integer(t *avroType, out *Value) error {
	i, err := r.long()
	if err != nil {
		return err
	}
	if t.narrow && int64(int32(i)) != i {
		return errOverflow
	}
	if t.kind != avroTime {
		*out = NumberValue(r.text.integer(i))
		return nil
	}
	// A date outside of the range of dates is Unreadable, as it is where Connect's
	// JSON schemas say the same.
	text, rule := t.time.append(r.text.scratch[:0], i)
	switch {
	case rule != "":
		*out = textValue(Unreadable, rule)
	case t.time.kind == timeOfDay && i == secondsOfDay*t.time.perSecond:
		*out = textValue(Unreadable, ruleClock) // to Avro, 24:00:00 is no time of a day
	default:
		*out = StringValue(r.text.keep(text))
	}
	return nil
}

func (r *avroReader) float(t *avroType, out *Value) error {
	size := 8
	if t.kind == avroFloat {
		size = 4
	}
	if len(r.data)-r.at < size {
		return errShort
	}
	var f float64
	if size == 4 {
		f = float64(math.Float32frombits(binary.LittleEndian.Uint32(r.data[r.at:])))
	} else {
		f = math.Float64frombits(binary.LittleEndian.Uint64(r.data[r.at:]))
	}
	r.at += size
	*out = r.text.float(f, size*8)
	return nil
}

// octets reads bytes.
func (r *avroReader) octets(t *avroType, out *Value) (err error) {
	n := t.size
	if n < 0 {
		if n, err = r.length(); err != nil {
			return err
		}
	}
	if n > len(r.data)-r.at {
		return errShort
	}
	raw := r.data[r.at : r.at+n]
	switch t.kind {
	case avroDecimal:
		*out = r.text.decimal(raw, t.scale)
	case avroUUID:
		*out = StringValue(r.text.keep(appendUUID(r.text.scratch[:0], raw)))
	case avroDuration:
		*out = StringValue(r.text.keep(appendDuration(r.text.scratch[:0], raw)))
	default:
		*out = r.text.base64(raw)
	}
	r.at += n
	return nil
}

func (r *avroReader) str() (string, error) {
	n, err := r.length()
	if err != nil {
		return "", err
	}
	s := r.text.record[r.at : r.at+n]
	if !utf8.ValidString(s) {
		return "", errUTF8
	}
	r.at += n
	return s, nil
}

// length reads how many bytes follow, which are there.
func (r *avroReader) length() (int, error) {
	n, err := r.long()
	if err != nil {
		return 0, err
	}
	if uint64(n) > uint64(len(r.data)-r.at) {
		return 0, errLength
	}
	return int(n), nil
}

// long reads a zig-zag integer of variable length. Most are short.
func (r *avroReader) long() (int64, error) {
	if r.at < len(r.data) && r.data[r.at] < 0x80 {
		u := uint64(r.data[r.at])
		r.at++
		return int64(u>>1) ^ -int64(u&1), nil
	}
	u, n := binary.Uvarint(r.data[r.at:])
	switch {
	case n == 0:
		return 0, errShort
	case n < 0:
		return 0, errVarint
	}
	r.at += n
	return int64(u>>1) ^ -int64(u&1), nil
}

// appendUUID writes 16 bytes in the usual five groups.
func appendUUID(out, raw []byte) []byte {
	for i := range raw {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, raw[i:i+1])
	}
	return out
}

// appendDuration writes months, days and milliseconds as ISO 8601 does.
func appendDuration(out, raw []byte) []byte {
	out = append(out, 'P')
	out = append(strconv.AppendUint(out, uint64(binary.LittleEndian.Uint32(raw)), 10), 'M')
	out = append(strconv.AppendUint(out, uint64(binary.LittleEndian.Uint32(raw[4:])), 10), 'D', 'T')
	millis := int64(binary.LittleEndian.Uint32(raw[8:]))
	out = appendFraction(strconv.AppendInt(out, millis/perMilli, 10), millis%perMilli*(perNano/perMilli))
	return append(out, 'S')
}
