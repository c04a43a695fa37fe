package spool

import (
	"encoding/binary"
	"iter"
	"sync"
)

// Pages are of two sizes, so that a mapping of three rows does not hold the page
// of one that has millions. An entry longer than a page has one of its own.
const (
	smallPage = 4 << 10
	largePage = 64 << 10
)

// Pages that are not in use are for the next file, of whichever mapping; the
// garbage collector takes those that wait for long.
var (
	smallPages = sync.Pool{New: func() any { return new([smallPage]byte) }}
	largePages = sync.Pool{New: func() any { return new([largePage]byte) }}
)

// pages hold entries end to end, none of them across two pages. They grow without
// copying, and an entry stays where it is until they are freed.
type pages struct {
	all  [][]byte // the last one has the room that is left
	size int      // of the entries, in bytes
}

// spot is where an entry is: in which page, and how far from its begin.
type spot struct {
	page int32
	at   uint32
}

// tail is empty memory behind the last entry. An entry that was appended to it
// and fits in need not be moved by add.
func (p *pages) tail() []byte {
	if len(p.all) == 0 {
		return nil
	}
	last := p.all[len(p.all)-1]
	return last[len(last):]
}

// add puts an entry behind the last one. Nothing may be appended to a tail that
// was taken before.
func (p *pages) add(entry []byte) spot {
	if cap(p.tail()) < len(entry) {
		p.all = append(p.all, p.page(len(entry)))
	}
	last := len(p.all) - 1
	at := spot{int32(last), uint32(len(p.all[last]))}
	p.all[last] = append(p.all[last], entry...)
	p.size += len(entry)
	return at
}

// page is a new page with room for n bytes.
func (p *pages) page(n int) []byte {
	switch {
	case n > largePage:
		return make([]byte, 0, n)
	case n > smallPage || len(p.all) > 0:
		return largePages.Get().(*[largePage]byte)[:0] //nolint:forcetypeassert // its New
	}
	return smallPages.Get().(*[smallPage]byte)[:0] //nolint:forcetypeassert // its New
}

// entry is the entry at a spot.
func (p *pages) entry(at spot) []byte {
	return firstEntry(p.all[at.page][at.at:])
}

// entries are all entries in the order of their adding.
func (p *pages) entries() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, page := range p.all {
			for entry := range entriesOf(page) {
				if !yield(entry) {
					return
				}
			}
		}
	}
}

// free gives the pages back. All that refers to an entry must have ended.
func (p *pages) free() {
	for _, page := range p.all {
		switch cap(page) {
		case smallPage:
			smallPages.Put((*[smallPage]byte)(page[:smallPage]))
		case largePage:
			largePages.Put((*[largePage]byte)(page[:largePage]))
		}
	}
	clear(p.all)
	p.all, p.size = p.all[:0], 0
}

// entriesOf are entries that lie end to end.
func entriesOf(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			entry := firstEntry(b)
			if !yield(entry) {
				return
			}
			b = b[len(entry):]
		}
	}
}

func firstEntry(b []byte) []byte { return b[:binary.LittleEndian.Uint32(b)] }
