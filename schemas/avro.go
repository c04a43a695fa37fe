package schemas

import "errors"

// avroReader reads values straight from Avro's binary encoding, along the
// compiled writer schema. Neither maps nor reflection stand between the bytes
// and the values; a record costs two allocations, its text and its members.
//
// It keeps its working memory between calls: one goroutine's own.
type avroReader struct {
	data   []byte
	at     int
	room   int // values that may still come
	memory memory
	text   texts
}

var (
	errShort    = errors.New("ends too early")
	errUTF8     = errors.New("not valid UTF-8")
	errVarint   = errors.New("an integer is longer than its type")
	errLength   = errors.New("a length is negative or beyond the end")
	errBoolean  = errors.New("a boolean is neither 0 nor 1")
	errBranch   = errors.New("a union has no such branch")
	errSymbol   = errors.New("an enum has no such symbol")
	errMany     = errors.New("holds more values than its bytes can mean")
	errTwice    = errors.New("a map key appears twice")
	errDecimal  = errors.New("a decimal is longer than 128 bytes")
	errOverflow = errors.New("a number is outside its type's range")
)

// maxValues bounds the values in one record.
const maxValues = 1 << 20

// valuesIn bounds what bytes of that length can hold: each byte a value, in as
// many containers as may be inside each other. Items that take no bytes, such
// as nulls, could otherwise come by the million from a length of five bytes.
func valuesIn(bytes int) int {
	return min(maxValues, MaxDepth*(bytes+MaxDepth))
}

// decode reads one value that takes all of data.
func (r *avroReader) decode(t *avroType, data []byte) (Value, error) {
	r.data, r.at, r.room = data, 0, valuesIn(len(data))
	r.text.begin(data)
	r.memory.begin()
	var v Value
	err := r.value(t, &v, 0)
	if err == nil && r.at < len(data) {
		err = errTrailing
	}
	r.data = nil
	r.text.end()
	r.memory.end()
	if err != nil {
		return Value{}, &DecodeError{Format: "avro", Offset: int64(r.at), Rule: err.Error()}
	}
	return v, nil
}

// value sets out, whatever it was.
func (r *avroReader) value(t *avroType, out *Value, depth int) error {
	switch t.kind {
	case avroNull:
		*out = NullValue()
	case avroBoolean:
		return r.boolean(out)
	case avroInt, avroLong, avroDate, avroTimeMillis, avroTimeMicros, avroTimeNanos,
		avroTimestampMillis, avroTimestampMicros, avroTimestampNanos, avroLocalMillis, avroLocalMicros, avroLocalNanos:
		return r.integer(t, out)
	case avroFloat, avroDouble:
		return r.float(t, out)
	case avroString:
		s, err := r.str()
		if err != nil {
			return err
		}
		*out = StringValue(s)
	case avroEnum:
		i, err := r.long()
		if err != nil {
			return err
		}
		if uint64(i) >= uint64(len(t.symbols)) {
			return errSymbol
		}
		*out = StringValue(t.symbols[i])
	case avroBytes, avroDecimal:
		n, err := r.length()
		if err != nil {
			return err
		}
		return r.octets(t, out, n)
	case avroFixed, avroFixedDecimal, avroUUID, avroDuration:
		return r.octets(t, out, t.size)
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
		if err := r.container(t, out, depth+1); err != nil {
			return err
		}
	}
	if t.convert != nil {
		*out = t.convert(*out)
	}
	return nil
}

func (r *avroReader) container(t *avroType, out *Value, depth int) error {
	if depth > MaxDepth {
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
			if f.typ.kind == avroString { // most are
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

// members hands out memory as far as the record's bytes can mean it.
func (r *avroReader) members(n int) ([]Field, error) {
	if r.room -= n; r.room < 0 {
		return nil, errMany
	}
	return r.memory.take(n), nil
}

// repeats reports whether two entries have one name. Few names are compared
// with each other, which needs no memory.
func repeats(entries []Field) bool {
	if len(entries) <= 16 {
		for i := range entries {
			for j := range i {
				if entries[i].Name == entries[j].Name {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]struct{}, len(entries))
	for i := range entries {
		seen[entries[i].Name] = struct{}{}
	}
	return len(seen) < len(entries)
}
