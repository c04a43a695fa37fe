package spool

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// sized is an entry of n bytes, at least 4, filled with one letter.
func sized(n int, letter byte) []byte {
	b := bytes.Repeat([]byte{letter}, n)
	binary.LittleEndian.PutUint32(b, uint32(n))
	return b
}

// room is what the pages take.
func room(p *pages) (n int) {
	for _, page := range p.all {
		n += cap(page)
	}
	return n
}

func TestPagesKeepEntriesWhereTheyAre(t *testing.T) {
	lengths := []int{4, smallPage - 4, 5, 300, largePage, 7, largePage + 1, 9, 3 * largePage, smallPage, largePage - smallPage, 1000}
	var p pages
	for round := range 2 { // the second one finds other entries in its pages
		var kept, want [][]byte
		size := 0
		for i := range 40 {
			for _, n := range lengths {
				entry := sized(n, byte('a'+i+round))
				tail := append(p.tail(), entry...) // as entries are encoded
				at := p.add(tail)
				kept, want, size = append(kept, p.entry(at)), append(want, entry), size+n
			}
		}
		if p.size != size {
			t.Errorf("size: got %d, want %d", p.size, size)
		}
		if got, most := room(&p), 3*size; got > most {
			t.Errorf("memory: got %d bytes for %d, want at most %d", got, size, most)
		}
		i := 0
		for got := range p.entries() {
			if !bytes.Equal(got, want[i]) || &got[0] != &kept[i][0] {
				t.Fatalf("entry %d: got %.10q of %d bytes, want the one of %d bytes where it was put", i, got, len(got), len(want[i]))
			}
			i++
		}
		if i != len(want) {
			t.Errorf("entries: got %d, want %d", i, len(want))
		}
		p.free()
		if p.size != 0 || room(&p) != 0 {
			t.Errorf("freed: got %d bytes in %d, want nothing", p.size, room(&p))
		}
	}
}

// TestPagesOfFewEntriesAreSmall: a hundred mappings may have a row each.
func TestPagesOfFewEntriesAreSmall(t *testing.T) {
	var p pages
	for range 3 {
		p.add(sized(300, 'a'))
	}
	if got := room(&p); got != smallPage {
		t.Errorf("memory for three entries: got %d bytes, want %d", got, smallPage)
	}
}
