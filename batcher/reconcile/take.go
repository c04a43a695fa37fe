package reconcile

import "github.com/feedsink/feedsink/schemas"

// Take takes a write of the other lane that may not have landed and that this lane
// sends, though no row can say it. It belongs to a file all the same: once that has
// landed it is part of what is sent for the key.
func (k *Keys) Take(w *schemas.Write, at At, where Where) {
	known := k.byKey[w.Key] != nil
	s := k.follow(w.Key)
	defer k.count(s, s.bytes)
	e := ownEntry(w, at)
	e.taken = []At{at}
	if where == Open {
		e.file = k.open()
	}
	if known {
		e.after = new(s.last)
	}
	if !known {
		s.last = at
	}
	s.add(e)
	if s.taken = s.taken || e.file > 0; e.file == 0 {
		s.wait(&e)
		s.owed = true
		s.contend()
	}
}

// wait has the key wait for what is older than a write whose file is on its way.
func (s *state) wait(e *entry) {
	s.row = new(e.at)
	if e.after != nil {
		s.await = e.after
	}
}
