package schemas

import "hash/maphash"

// Hash adds to h all that the write says, so that two writes that differ in anything have
// different sums, but for chance. Writes that name the same in another order differ, too.
func (w *Write) Hash(h *maphash.Hash) {
	_ = h.WriteByte(byte(w.Op))
	w.HashKey(h)
	hashText(h, w.ProfileID)
	hashSize(h, len(w.Cells))
	for i := range w.Cells {
		c := &w.Cells[i]
		_ = h.WriteByte(byte(c.Section))
		hashText(h, c.Name)
		c.Value.hash(h)
	}
}

// HashKey adds the write's table and key to h.
func (w *Write) HashKey(h *maphash.Hash) {
	kind := byte(0)
	if w.Table.Custom {
		kind = 1
	}
	_ = h.WriteByte(kind)
	hashText(h, w.Table.Name)
	hashText(h, w.Key)
}

func (v Value) hash(h *maphash.Hash) {
	_ = h.WriteByte(byte(v.kind))
	switch v.kind {
	case Bool, Number, String:
		hashText(h, v.Text())
	case Unreadable:
		hashText(h, v.Rule())
	case List, Object:
		hashSize(h, len(v.Items()))
		for _, item := range v.Items() {
			if v.kind == Object {
				hashText(h, item.Name)
			}
			item.Value.hash(h)
		}
	}
}

// hashText adds a text with its length, so that no two texts run into each other. A Hash
// returns no error.
func hashText(h *maphash.Hash, s string) {
	hashSize(h, len(s))
	_, _ = h.WriteString(s)
}

func hashSize(h *maphash.Hash, n int) {
	for ; n >= 0x80; n >>= 7 {
		_ = h.WriteByte(byte(n) | 0x80)
	}
	_ = h.WriteByte(byte(n))
}
