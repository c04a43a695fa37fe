package calls

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

func slotOf(key, write uint64, until uint32) slot {
	return slot{tag: tagOf(key), low: uint32(write), high: uint32(write >> 32), until: until}
}

func always(*slot) bool { return true }

// TestSlotsAgreeWithAMap: of keys that share no tag, slots know what a map knows.
func TestSlotsAgreeWithAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, 3000)
	for i := range keys {
		// Three parts, so that these grow; homes that lie close, so that they collide.
		keys[i] = uint64(i%3)<<56 | uint64(i)<<(8*(i%2)) | 1<<40
	}
	s, model := slots{most: 1 << 20}, map[uint64]uint64{}
	for n := range 200_000 {
		key := keys[rnd.IntN(len(keys))]
		id := key&^(1<<40-1<<32)&^0xffffff00000000 | uint64(tagOf(key))
		switch rnd.IntN(3) {
		case 0:
			s.remove(key)
			delete(model, id)
		default:
			s.put(slotOf(key, uint64(n)*0x9e3779b97f4a7c15, 1), key, always)
			model[id] = uint64(n) * 0x9e3779b97f4a7c15
		}
		key = keys[rnd.IntN(len(keys))]
		id = key&^(1<<40-1<<32)&^0xffffff00000000 | uint64(tagOf(key))
		want, known := model[id]
		if got := s.get(key); (got != nil) != known || known && got.write() != want {
			t.Fatalf("after %d: key %x: got %+v, want %x (%v)", n, key, got, want, known)
		}
		if s.used() != len(model) {
			t.Fatalf("after %d: got %d keys, want %d", n, s.used(), len(model))
		}
	}
}

// TestKeyTakesAtMost30Bytes measures what a key costs, at whatever number of keys.
func TestKeyTakesAtMost30Bytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	s := slots{most: 1 << 20}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for _, keys := range []int{100_000, 150_000, 220_000, 330_000, 500_000, 1_000_000} {
		for range keys - s.used() {
			key := rnd.Uint64()
			s.put(slotOf(key, rnd.Uint64(), 1), key, always)
		}
		// A part whose size is no size class of the allocator takes the next one.
		perKey := float64(heap()-before) / float64(keys)
		t.Logf("%d keys: %.1f bytes each", keys, perKey)
		if perKey > 32 {
			t.Errorf("%d keys: got %.1f bytes each, want at most 32", keys, perKey)
		}
	}
	runtime.KeepAlive(&s)
}

// TestSlotsAreBounded: beyond the bound the key that would be forgotten first goes, of a few.
func TestSlotsAreBounded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	const most = 100
	s := slots{most: most}
	for n := range 20 * most * shards {
		key := rnd.Uint64()
		s.put(slotOf(key, 1, uint32(n)), key, always)
		if s.get(key) == nil {
			t.Fatalf("key %d is not known", n)
		}
	}
	newest := 0
	for i := range s.shards {
		part := &s.shards[i]
		if len(part.slots) > most || part.used*20 > len(part.slots)*17+20 {
			t.Fatalf("part %d: got %d keys in %d slots, want at most 86 in %d", i, part.used, len(part.slots), most)
		}
		for _, slot := range part.slots {
			if slot.tag != 0 && slot.until > 15*most*shards {
				newest++
			}
		}
	}
	if newest < s.used()/2 {
		t.Errorf("got %d of %d keys from the last quarter, want most", newest, s.used())
	}
}

// TestWhatIsOverMakesRoom: a part does not grow for keys of which nothing holds.
func TestWhatIsOverMakesRoom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	s := slots{most: 1 << 20}
	for n := range uint32(1_000_000) {
		key := rnd.Uint64()
		s.put(slotOf(key, 1, n), key, func(old *slot) bool { return old.until+10_000 > n })
	}
	room := 0
	for i := range s.shards {
		room += len(s.shards[i].slots)
	}
	if room > 40_000 {
		t.Errorf("got %d slots for 10,000 keys, want no more than 40,000", room)
	}
}

// used is how many keys have a slot.
func (s *slots) used() (n int) {
	for i := range s.shards {
		n += s.shards[i].used
	}
	return n
}
