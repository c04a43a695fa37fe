package schemas

// usualMembers bounds the memory for members that is kept between records.
const usualMembers = 512

// memory is where a decoder puts the members of a record's objects and lists. The
// next record takes the block of this one. A full block is left to the values in it,
// since growing would copy them.
type memory struct {
	open   []Field // members of the containers not yet closed, innermost last
	widest int     // the most that were open in this record: clearing them once is quicker than at each close
	block  []Field // members handed out; what is left belongs to this record's value
	taken  int     // members of this record, and before its begin of the last: a guess at the next one's
	held   int     // of block: members that a record before has set
}

// begin prepares for the next record.
func (m *memory) begin() {
	want := min(m.taken, usualMembers)
	m.taken = 0
	m.block = m.block[:0]
	if cap(m.block) < want {
		m.block, m.held = make([]Field, 0, want), 0
	}
}

// again begins the record once more; what it took is nobody's.
func (m *memory) again() {
	m.close(0)
	clear(m.block)
	m.block, m.taken = m.block[:0], 0
}

// end forgets the record. Its memory is its value's until the next record.
func (m *memory) end() {
	m.close(0)
	clear(m.open[:m.widest]) // nothing holds the text of records past
	m.widest = 0
	if len(m.block) < m.held { // nothing holds the text of records past
		clear(m.block[len(m.block):m.held])
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
	m.taken += n
	if cap(m.block)-len(m.block) < n {
		m.block, m.held = make([]Field, 0, max(n, 8)), 0
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
