package router

import "github.com/feedsink/feedsink/schemas"

// Slab is memory for writes that outlive their records, of one goroutine: those
// of a few records lie in one piece, which is quicker than a piece for each. A
// write that is kept keeps the whole piece, so that it is for few and never
// large. The zero Slab is ready.
type Slab struct {
	cells []schemas.Cell
	items []schemas.Field
	alone bool // one record is all there will be
}

// What one piece of a slab serves: so many writes of one size, unless that takes
// more than so many cells or items of lists.
const (
	sharingWrites = 8
	sharedCells   = 128
)

// piece is the size of a piece, from which n are wanted first.
func (s *Slab) piece(n int) int {
	if s.alone {
		return n
	}
	return max(n, min(sharingWrites*n, sharedCells))
}

// rest is where the next write's cells go, unless they need more.
func (s *Slab) rest() []schemas.Cell { return s.cells[len(s.cells):] }

// room makes room for the n cells of a write.
func (s *Slab) room(n int) []schemas.Cell {
	s.cells = make([]schemas.Cell, 0, s.piece(n))
	return s.cells
}

// keep makes the cells the write's own, which lie where rest or room said.
func (s *Slab) keep(w *schemas.Write) {
	n := len(w.Cells)
	if n == 0 {
		w.Cells = nil // and not the memory of the next
		return
	}
	s.cells = s.cells[:len(s.cells)+n]
	w.Cells = w.Cells[:n:n]
	for i := range w.Cells {
		if v := &w.Cells[i].Value; v.Kind() == schemas.List {
			*v = schemas.ListValue(s.list(v.Items()))
		}
	}
}

// list copies the elements of a list, of which the names mean nothing.
func (s *Slab) list(items []schemas.Field) []schemas.Field {
	n := len(items)
	if cap(s.items)-len(s.items) < n {
		s.items = make([]schemas.Field, 0, s.piece(n))
	}
	at := len(s.items)
	s.items = s.items[:at+n]
	own := s.items[at : at+n : at+n]
	for i := range own {
		own[i].Value = items[i].Value
	}
	return own
}
