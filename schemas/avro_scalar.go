package schemas

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

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
	*out = r.timestamp(t.kind, i)
	if t.convert != nil {
		*out = t.convert(*out)
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

// octets reads n bytes of what is no text.
func (r *avroReader) octets(t *avroType, out *Value, n int) error {
	if n > len(r.data)-r.at {
		return errShort
	}
	raw := r.data[r.at : r.at+n]
	var err error
	switch t.kind {
	case avroDecimal, avroFixedDecimal:
		*out, err = r.text.decimal(raw, t.scale)
	case avroUUID:
		*out = r.text.uuid(raw)
	case avroDuration:
		*out = r.text.months(raw)
	default:
		*out = r.text.base64(raw)
	}
	if err != nil {
		return err
	}
	r.at += n
	if t.convert != nil {
		*out = t.convert(*out)
	}
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

// timestamp is what an integer of the kind says: a number, or the date or time
// that the schema's logical type makes of it. One that is outside of the range
// of dates is Unreadable, as it is where Connect's JSON schemas say the same.
func (r *avroReader) timestamp(kind avroKind, i int64) Value {
	text, ok := "", false
	switch kind {
	case avroInt, avroLong:
		return NumberValue(r.text.integer(i))
	case avroDate:
		text, ok = r.text.date(i)
	case avroTimeMillis:
		text, ok = r.text.clock(i, 1e3, 3)
	case avroTimeMicros:
		text, ok = r.text.clock(i, 1e6, 6)
	case avroTimeNanos:
		text, ok = r.text.clock(i, 1e9, 9)
	case avroTimestampMillis, avroLocalMillis:
		text, ok = r.text.since(i, 1e3, kind == avroLocalMillis)
	case avroTimestampMicros, avroLocalMicros:
		text, ok = r.text.since(i, 1e6, kind == avroLocalMicros)
	case avroTimestampNanos, avroLocalNanos:
		text, ok = r.text.since(i, 1e9, kind == avroLocalNanos)
	}
	if ok {
		return StringValue(text)
	}
	if kind == avroTimeMillis || kind == avroTimeMicros || kind == avroTimeNanos {
		return textValue(Unreadable, ruleClock)
	}
	return textValue(Unreadable, ruleYears)
}
