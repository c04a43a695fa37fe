package waiting

// Becomes notes what becomes of the key's first row.
func (r *Rows) Becomes(k *Key, next State) {
	counts := func(s State) bool { return s == Calling || s == Ending }
	if counts(k.State) {
		r.called[k.Rows[0].Route]--
	}
	if counts(next) {
		r.called[k.Rows[0].Route]++
	}
	k.State, k.landing = next, nil
}

// Submitted is how many calls of a route have not ended: also those of rows that are in the
// open file by now.
func (r *Rows) Submitted(route int) int {
	n := r.called[route]
	for row := range r.moved {
		if row.Route == route {
			n++
		}
	}
	return n
}

// Land says that the call of the key's first row has landed. Whether that counts is known
// once the log was read on.
func (r *Rows) Land(k *Key, row *Row, outcome string) {
	r.Becomes(k, Landed)
	k.landing = &Landing{Key: k, Row: row, Outcome: outcome}
}

// Landings are the calls that have landed and are not confirmed yet.
func (r *Rows) Landings() (all []*Landing) {
	for _, k := range r.order {
		if k.landing != nil {
			all = append(all, k.landing)
		}
	}
	return all
}

// Stands reports whether the row of the landing is not in a file by now.
func (l *Landing) Stands() bool { return l.Key.landing == l }

// Dropped says that calls which have not ended were dropped, and returns the keys of those
// whose rows are in the open file.
func (r *Rows) Dropped() (moved []string) {
	for _, k := range r.order {
		if k.State == Calling {
			r.Becomes(k, Resting)
		}
	}
	for row := range r.moved {
		moved = append(moved, row.Write.Key)
	}
	clear(r.moved)
	return moved
}

// Leave ends the waiting of the key's first row, which goes into a file, for its call. It
// reports whether the row may have landed, or may land.
func (r *Rows) Leave(k *Key) (called bool) {
	called = k.Called()
	if k.State == Calling {
		r.moved[k.Rows[0]] = true
	}
	r.Becomes(k, Resting)
	return called
}

// EndMoved ends the call of a row that is in the open file by now. It reports false for
// any other.
func (r *Rows) EndMoved(row *Row) bool {
	if !r.moved[row] {
		return false
	}
	delete(r.moved, row)
	return true
}

// Doubt says that a call of the row, which goes into the open file or is there, may land
// though it has ended.
func (r *Rows) Doubt(row *Row) { r.doubted = append(r.doubted, row.Write.Key) }

// EndDoubts says that none of these calls can land any more, and returns their keys.
func (r *Rows) EndDoubts() (keys []string) {
	keys, r.doubted = r.doubted, nil
	return keys
}
