package schemas

import (
	"errors"
	"unsafe"
)

// usualMembers is the memory for members that is kept between records.
const usualMembers = 512

// memory is where a decoder puts the members of a record's objects and lists. The
// next record takes the block of this one. A full block is left to the values in it,
// since growing would copy them.
type memory struct {
	open   []Field // members of the containers not yet closed, innermost last
	widest int     // the most that were open in this record: clearing them once is quicker than at each close
	block  []Field // members handed out; what is left belongs to this record's value
	held   int     // of block: members that a record before has set
}

// begin prepares for the next record.
func (m *memory) begin() { m.block = m.block[:0] }

// end forgets the record. Its memory is its value's until the next record.
func (m *memory) end() {
	m.close(0)
	clear(m.open[:m.widest]) // nothing holds the text of records past
	m.widest = 0
	if len(m.block) < m.held {
		clear(m.block[len(m.block):m.held]) // here neither
	}
	m.held = len(m.block)
	if cap(m.block) > usualMembers {
		m.block, m.held = nil, 0
	}
	if cap(m.open) > usualMembers {
		m.open = nil // one huge record must not be held until the next
	}
}

// take hands out n members, to be set whole.
func (m *memory) take(n int) []Field {
	if n == 0 {
		return nil
	}
	if cap(m.block)-len(m.block) < n {
		m.block, m.held = make([]Field, 0, max(n, usualMembers)), 0
	}
	at := len(m.block)
	m.block = m.block[:at+n]
	return m.block[at : at+n : at+n]
}

// keep hands out members that hold what was opened since base.
func (m *memory) keep(base int) []Field {
	members := m.take(len(m.open) - base)
	copy(members, m.open[base:])
	m.close(base)
	return members
}

// close forgets what was opened since base.
func (m *memory) close(base int) {
	m.widest = max(m.widest, len(m.open))
	m.open = m.open[:base]
}

// repeats reports whether two entries have one name. Few names are compared
// with each other, which needs no memory; a bit for each length and two letters
// spares most of the comparing.
func repeats(entries []Field) bool {
	if len(entries) > 64 {
		seen := make(map[string]struct{}, len(entries))
		for i := range entries {
			seen[entries[i].Name] = struct{}{}
		}
		return len(seen) < len(entries)
	}
	seen := uint64(0)
	for i := range entries {
		bit := mark(entries[i].Name)
		if seen&bit != 0 {
			for j := range i {
				if entries[j].Name == entries[i].Name {
					return true
				}
			}
		}
		seen |= bit
	}
	return false
}

// mark is a name's length and two of its letters, as a bit.
func mark(name string) uint64 {
	n := uint(len(name))
	if n > 0 {
		n += 5*uint(name[n-1]) + 11*uint(name[n/2])
	}
	return 1 << (n & 63)
}

// binaryReader is what reading a record of a binary format needs.
type binaryReader struct {
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
	errMany     = errors.New("holds more values than a record of its length may, 1,048,576 at most")
	errTwice    = errors.New("a map key appears twice")
	errOverflow = errors.New("a number is outside its type's range")
)

// maxValues bounds the values in one record.
const maxValues = 1 << 20

// valuesIn bounds what bytes of that length can hold: each byte a value, in as
// many containers as may be inside each other. Items that take no bytes, such
// as nulls, could otherwise come by the million from a length of five bytes.
func valuesIn(bytes int) int {
	return min(maxValues, maxDepth*(bytes+maxDepth))
}

func (r *binaryReader) begin(data []byte) {
	r.data, r.at, r.room = data, 0, valuesIn(len(data))
	r.text.record = unsafe.String(unsafe.SliceData(data), len(data))
	r.memory.begin()
}

// end forgets the record; err is why it could not be read.
func (r *binaryReader) end(f Format, v Value, err error) (Value, error) {
	r.data, r.text.record = nil, ""
	r.memory.end()
	if err != nil {
		return Value{}, &DecodeError{Format: string(f), Offset: int64(r.at), Rule: err.Error()}
	}
	return v, nil
}

// members hands out memory as far as the record's bytes can mean it.
func (r *binaryReader) members(n int) ([]Field, error) {
	if r.room -= n; r.room < 0 {
		return nil, errMany
	}
	return r.memory.take(n), nil
}
