package schemas

// usualMembers bounds the memory for members that is kept between records.
const usualMembers = 512

// memory is where a decoder puts the members of a record's objects and lists.
// One block usually serves a whole record; a full one is left to the values in
// it, since growing would copy them.
type memory struct {
	open  []Field // members of the containers not yet closed, innermost last
	block []Field // members handed out; what is left belongs to this record's value
	taken int     // members of this record, and before its begin of the last: a guess at the next one's
}

// begin prepares for the next record.
func (m *memory) begin() {
	m.open = m.open[:0]
	m.block = make([]Field, 0, min(m.taken, usualMembers))
	m.taken = 0
}

// end forgets the record, whose memory is its value's now.
func (m *memory) end() {
	m.block = nil
	if cap(m.open) > usualMembers {
		m.open = nil // one huge record must not be held until the next
	}
}

// take hands out n members, all Absent.
func (m *memory) take(n int) []Field {
	if n == 0 {
		return nil
	}
	m.taken += n
	if cap(m.block)-len(m.block) < n {
		m.block = make([]Field, 0, max(n, 8))
	}
	at := len(m.block)
	m.block = m.block[:at+n]
	return m.block[at : at+n : at+n]
}

// keep hands out members that hold what was opened since base.
func (m *memory) keep(base int) []Field {
	members := m.take(len(m.open) - base)
	copy(members, m.open[base:])
	m.open = m.open[:base]
	return members
}
