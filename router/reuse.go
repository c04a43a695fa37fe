package router

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// Arena is memory for writes that outlive their records, of one goroutine: those
// of a few records lie in one piece, which is quicker than a piece for each. A
// write that is kept keeps the whole piece, so that it is for few and never
// large. The zero Arena is ready.
type Arena struct {
	cells []schemas.Cell
	items []schemas.Field
	alone bool // one record is all there will be
}

// What one piece of an arena serves: so many writes of one size, unless that takes
// more than so many cells or items of lists.
const (
	sharingWrites = 8
	sharedCells   = 128
)

// piece is the size of a piece, from which n are wanted first.
func (a *Arena) piece(n int) int {
	if a.alone {
		return n
	}
	return max(n, min(sharingWrites*n, sharedCells))
}

// rest is where the next write's cells go, unless they need more.
func (a *Arena) rest() []schemas.Cell { return a.cells[len(a.cells):] }

// room is cells, which are none yet, with room for the n of a write. Without an arena
// it is the write's own.
func (a *Arena) room(cells []schemas.Cell, n int) []schemas.Cell {
	if cap(cells) >= n {
		return cells
	}
	if a == nil {
		return make([]schemas.Cell, 0, n)
	}
	a.cells = make([]schemas.Cell, 0, a.piece(n))
	return a.cells
}

// keep makes the cells the write's own, which lie where rest or room said.
func (a *Arena) keep(w *schemas.Write) {
	n := len(w.Cells)
	if n == 0 {
		w.Cells = nil // and not the memory of the next
		return
	}
	a.cells = a.cells[:len(a.cells)+n]
	w.Cells = w.Cells[:n:n]
	for i := range w.Cells {
		if v := &w.Cells[i].Value; v.Kind() == schemas.List {
			*v = schemas.ListValue(a.list(v.Items()))
		}
	}
}

// list copies the elements of a list, of which the names mean nothing.
func (a *Arena) list(items []schemas.Field) []schemas.Field {
	n := len(items)
	if cap(a.items)-len(a.items) < n {
		a.items = make([]schemas.Field, 0, a.piece(n))
	}
	at := len(a.items)
	a.items = a.items[:at+n]
	own := a.items[at : at+n : at+n]
	for i := range own {
		own[i].Value = items[i].Value
	}
	return own
}

// targets are those that the canonical events of a mapping have named, each found
// once. What is known of a section is replaced, never changed, since any number of
// goroutines reads it.
type targets struct {
	of     [schemas.Properties + 1]atomic.Pointer[known]
	names  int // in all of them
	adding sync.Mutex
}

// known are the targets of a section.
type known struct {
	byName map[string]*values.Target
	// inOrder is how they were met. The events of a topic are alike: a member is mostly
	// where it was in the first of them, which is found sooner than its name in a map.
	inOrder []*values.Target
}

// target is that of the i-th member of an event's object; nil: not known.
func (k *known) target(i int, name string) *values.Target {
	if i < len(k.inOrder) && k.inOrder[i].Name == name {
		return k.inOrder[i]
	}
	return k.byName[name]
}

// What is kept: names that come again, of which a table has some hundreds.
const (
	maxNames = 1024
	maxName  = 256 // bytes
)

// target is a field of the mapping's table.
func (c *Compiled) target(at schemas.Place) values.Target {
	t := values.NewTarget(at, c.types[at.Name])
	for i := range c.constants {
		if c.constants[i].Place == at {
			t.WriteForNull(c.constants[i].null)
		}
	}
	return t
}

// named is the target of a canonical event's member, the i-th of its object.
func (c *Compiled) named(section schemas.Section, i int, name string) *values.Target {
	if known := c.targets.of[section].Load(); known != nil {
		if t := known.target(i, name); t != nil {
			return t
		}
	}
	t := c.target(schemas.Place{Section: section, Name: strings.Clone(name)})
	c.targets.add(&t)
	return &t
}

func (n *targets) add(t *values.Target) {
	n.adding.Lock()
	defer n.adding.Unlock()
	if n.names == maxNames || len(t.Name) > maxName {
		return
	}
	longer := known{byName: map[string]*values.Target{}}
	if before := n.of[t.Section].Load(); before != nil {
		if before.byName[t.Name] != nil {
			return // another goroutine's
		}
		longer = known{maps.Clone(before.byName), slices.Clone(before.inOrder)}
	}
	longer.byName[t.Name] = t
	longer.inOrder = append(longer.inOrder, t)
	n.of[t.Section].Store(&longer)
	n.names++
}
