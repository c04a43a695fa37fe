package ack

import (
	"encoding/binary"
	"slices"
)

// Range is the offsets from From up to, not including, To.
type Range struct{ From, To int64 }

// Ranges is a set of offsets: sorted, neither overlapping nor touching.
type Ranges []Range

// Contains reports whether offset o is in the set.
func (rs Ranges) Contains(o int64) bool {
	if len(rs) == 0 {
		return false
	}
	i := rs.firstEndingAfter(o)
	return i < len(rs) && rs[i].From <= o
}

// Add returns the set with r in it. Adding behind or next to the last range,
// what happens nearly always, costs no search.
func (rs Ranges) Add(r Range) Ranges {
	if r.To <= r.From {
		return rs
	}
	last := len(rs) - 1
	if last < 0 || r.From > rs[last].To {
		return append(rs, r)
	}
	if r.From >= rs[last].From {
		rs[last].To = max(rs[last].To, r.To)
		return rs
	}
	// i: the first range that overlaps or touches r; j: the first one beyond it.
	i := rs.firstEndingAfter(r.From - 1)
	j := i
	for j < len(rs) && rs[j].From <= r.To {
		r.From, r.To = min(r.From, rs[j].From), max(r.To, rs[j].To)
		j++
	}
	return slices.Replace(rs, i, j, r)
}

// Remove returns the set without the offsets of r.
func (rs Ranges) Remove(r Range) Ranges {
	if r.To <= r.From {
		return rs
	}
	var out Ranges
	for _, have := range rs {
		if have.From < r.From {
			out = append(out, Range{have.From, min(have.To, r.From)})
		}
		if have.To > r.To {
			out = append(out, Range{max(have.From, r.To), have.To})
		}
	}
	return out
}

// above returns the part of the set at or beyond offset o, sharing memory with rs.
func (rs Ranges) above(o int64) Ranges {
	i := rs.firstEndingAfter(o)
	rs = rs[i:]
	if len(rs) > 0 && rs[0].From < o {
		rs[0].From = o
	}
	return rs
}

// firstEndingAfter is the index of the first range with To > o.
func (rs Ranges) firstEndingAfter(o int64) int {
	i, _ := slices.BinarySearchFunc(rs, o, func(r Range, o int64) int {
		if r.To > o {
			return 1
		}
		return -1
	})
	return i
}

// append adds the set to a ledger, as distances from an offset at or below it.
func (rs Ranges) append(b []byte, at int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(rs)))
	for _, r := range rs {
		b = binary.AppendUvarint(b, uint64(r.From-at))
		b = binary.AppendUvarint(b, uint64(r.To-r.From))
		at = r.To
	}
	return b
}

func (r *reader) ranges(at int64) (rs Ranges) {
	for range r.count() {
		from := at + r.length()
		to := from + r.length()
		if from < at || to <= from {
			r.fail()
			break
		}
		rs = append(rs, Range{from, to})
		at = to
	}
	return rs
}
