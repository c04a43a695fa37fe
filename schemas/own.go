package schemas

import (
	"strings"
	"unsafe"
)

// Own returns the write in memory of its own, and how many bytes of it: its texts
// may be parts of what was decoded for the whole record, which is much more.
func (w *Write) Own() (own Write, bytes int64) {
	size := len(w.Key) + len(w.ProfileID)
	for i := range w.Cells {
		size += w.Cells[i].Value.textSize()
	}
	var text strings.Builder
	text.Grow(size)
	own = *w
	own.Key, own.ProfileID = copied(&text, w.Key), copied(&text, w.ProfileID)
	own.Cells = make([]Cell, len(w.Cells))
	bytes = int64(size) + int64(len(w.Cells))*int64(unsafe.Sizeof(Cell{}))
	for i := range w.Cells {
		own.Cells[i] = Cell{Place: w.Cells[i].Place, Value: w.Cells[i].Value.own(&text, &bytes)}
	}
	return own, bytes
}

// copied is s as a part of text, which has room for it.
func copied(text *strings.Builder, s string) string {
	at := text.Len()
	text.WriteString(s)
	return text.String()[at:]
}

func (v Value) textSize() (n int) {
	n = len(v.Text())
	for _, f := range v.Items() {
		n += len(f.Name) + f.Value.textSize()
	}
	return n
}

func (v Value) own(text *strings.Builder, bytes *int64) Value {
	switch v.kind {
	case String, Number:
		return textValue(v.kind, copied(text, v.Text()))
	case List, Object:
		items := make([]Field, v.size)
		*bytes += int64(len(items)) * int64(unsafe.Sizeof(Field{}))
		for i, f := range v.Items() {
			items[i] = Field{Name: copied(text, f.Name), Value: f.Value.own(text, bytes)}
		}
		return itemsValue(v.kind, items)
	}
	return v
}
