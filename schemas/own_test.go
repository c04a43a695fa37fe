package schemas

import (
	"bytes"
	"testing"
	"unsafe"
)

func TestOwnWriteKeepsNothingOfItsRecord(t *testing.T) {
	record := []byte(`KeyPIDtextlist12.5` + string(make([]byte, 60_000)))
	part := func(from, to int) string { return unsafe.String(&record[from], to-from) }
	place := &Place{Section: Properties, Name: "a"}
	w := &Write{Op: Upsert, Table: Table{Name: "t", Custom: true}, Key: part(0, 3), ProfileID: part(3, 6), Cells: []Cell{
		{place, StringValue(part(6, 10))},
		{place, NumberValue(part(14, 18))},
		{place, NullValue()},
		{place, BoolValue(true)},
		{place, StringValue("")},
		{place, ListValue([]Field{{Value: StringValue(part(10, 14))}})},
		{place, ObjectValue([]Field{{Name: part(6, 10), Value: NullValue()}})},
		{place, Value{}},
	}}
	own, size := w.Own()
	copy(record, bytes.Repeat([]byte("#"), len(record)))
	want := []string{`"text"`, `12.5`, `null`, `true`, `""`, `["list"]`, `{"text":null}`}
	for i, text := range want {
		if got := string(own.Cells[i].Value.AppendJSON(nil)); got != text {
			t.Errorf("cell %d: got %s, want %s", i, got, text)
		}
	}
	if own.Key != "Key" || own.ProfileID != "PID" || own.Cells[7].Value.Kind() != Absent || own.Cells[0].Place != place || own.Op != Upsert {
		t.Errorf("got %+v, want all that the write said", own)
	}
	if size < 100 || size > 1000 {
		t.Errorf("size: got %d, want some hundred bytes", size)
	}
}
