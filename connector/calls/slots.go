package calls

import (
	"slices"
	"unsafe"
)

// slots hold a fingerprint for each of many keys, in little memory: a table for each of
// many parts of the keys, which grows by a quarter when it is full, so that growing is neither
// slow nor takes much. Beyond most slots in a part the key that would be forgotten first makes room.
//
// Two keys may share a slot by chance, and then forget one another. What a slot says is
// compared as a whole with a fingerprint that has the key in it: so neither is taken for the other.
type slots struct {
	most   int // slots in a part
	shards [shards]shard
}

type shard struct {
	slots []slot
	used  int
}

type slot struct {
	tag       uint32 // of the key; 0: the slot is free
	low, high uint32 // of the write's fingerprint
	until     uint32 // in seconds
	source    uint16
}

const (
	shards   = 256
	slotSize = int64(unsafe.Sizeof(slot{}))
	// fewest slots has a part that has any.
	fewest = 8
	// near are the slots of which one makes room, if a part may not grow.
	near = 8
)

func (s *slot) write() uint64 { return uint64(s.high)<<32 | uint64(s.low) }

// tagOf tells the keys of a part apart, which have the highest bits in common.
func tagOf(key uint64) uint32 { return max(uint32(key), 1) }

func (s *slots) shard(key uint64) *shard { return &s.shards[key>>56] }

// get is the key's slot; nil: it has none.
func (s *slots) get(key uint64) *slot {
	part := s.shard(key)
	if at, found := part.find(tagOf(key)); found {
		return &part.slots[at]
	}
	return nil
}

// remove frees the key's slot.
func (s *slots) remove(key uint64) {
	part := s.shard(key)
	if at, found := part.find(tagOf(key)); found {
		part.free(at)
	}
}

// put fills a slot for the key. Others that are not alive may make room.
func (s *slots) put(next slot, key uint64, alive func(*slot) bool) {
	part := s.shard(key)
	if at, found := part.find(next.tag); found {
		part.slots[at] = next
		return
	}
	if s.most < fewest {
		return
	}
	if part.full() && len(part.slots) < s.most {
		part.grow(s.most, alive)
	}
	if part.full() {
		part.free(part.first(next.tag, alive))
	}
	at, _ := part.find(next.tag)
	part.slots[at] = next
	part.used++
}

// full reports whether there is no room: a part with fewer free slots is slow.
func (p *shard) full() bool { return p.used*20 >= len(p.slots)*17 }

func (p *shard) home(tag uint32) int { return int(uint64(tag) * uint64(len(p.slots)) >> 32) }

func (p *shard) after(at int) int {
	if at++; at < len(p.slots) {
		return at
	}
	return 0
}

// find is the slot with the tag, or the free one where it is to be.
func (p *shard) find(tag uint32) (at int, found bool) {
	if len(p.slots) == 0 {
		return 0, false
	}
	for at = p.home(tag); p.slots[at].tag != 0; at = p.after(at) {
		if p.slots[at].tag == tag {
			return at, true
		}
	}
	return at, false
}

// free frees a slot, and moves those behind it up that would not be found any more.
func (p *shard) free(at int) {
	p.used--
	for next := p.after(at); p.slots[next].tag != 0; next = p.after(next) {
		home := p.home(p.slots[next].tag)
		between := at < home && home <= next // so that it stays
		if next < at {
			between = at < home || home <= next
		}
		if !between {
			p.slots[at], at = p.slots[next], next
		}
	}
	p.slots[at] = slot{}
}

// grow lets go of what is not alive, and has up to most slots for the rest.
func (p *shard) grow(most int, alive func(*slot) bool) {
	live := 0
	for i := range p.slots {
		if p.slots[i].tag != 0 && alive(&p.slots[i]) {
			live++
		}
	}
	size := len(p.slots)
	if live*100 > size*68 {
		size += size / 4
	}
	old := p.slots
	p.slots = slices.Grow([]slot(nil), min(max(size, fewest), most))
	p.slots, p.used = p.slots[:min(cap(p.slots), most)], 0 // the allocator may have given more
	for i := range old {
		if old[i].tag != 0 && alive(&old[i]) {
			at, _ := p.find(old[i].tag)
			p.slots[at] = old[i]
			p.used++
		}
	}
}

// first is, of a few slots that are taken from the tag's place on, that which is forgotten first.
func (p *shard) first(tag uint32, alive func(*slot) bool) (first int) {
	first = -1
	for at, seen := p.home(tag), 0; seen < near && seen < p.used; at = p.after(at) {
		s := &p.slots[at]
		if s.tag == 0 {
			continue
		}
		if seen++; !alive(s) {
			return at
		}
		if first < 0 || s.until < p.slots[first].until {
			first = at
		}
	}
	return first
}
