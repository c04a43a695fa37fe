package spool

import (
	"errors"
	"reflect"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

func TestPreviewFoldsAsAFileWould(t *testing.T) {
	m := layout{
		Key: Key{schemas.Attributes, "id"}, CSV: CSV{Encoding: "ISO-8859-1"},
		Columns: []Column{{Header: "id", Section: schemas.Attributes, Name: "id"}, {Header: "name", Section: schemas.Attributes, Name: "name"}},
	}
	p := NewPreview(mustRows(t, m))
	write := func(op schemas.Op, key, name string) *schemas.Write {
		return &schemas.Write{Op: op, Key: key, Cells: []schemas.Cell{{Place: &schemas.Place{Section: schemas.Attributes, Name: "name"}, Value: schemas.StringValue(name)}}}
	}
	for _, w := range []*schemas.Write{write(schemas.Upsert, "1", "a"), write(schemas.Upsert, "1", "b"), write(schemas.Upsert, "2", "c"), write(schemas.Delete, "3", "")} {
		check(t, p.Add(w))
	}
	want := []PreviewFile{
		{Op: schemas.Delete, Rows: 1, Bytes: 5, Lines: []string{"id", "3"}},
		{Op: schemas.Upsert, Rows: 2, Bytes: 16, Lines: []string{"id,name", "1,b"}},
	}
	if got := p.Files(1); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var bad *schemas.ValueError
	if err := p.Add(write(schemas.Upsert, "4", "漢")); !errors.As(err, &bad) {
		t.Errorf("what the encoding cannot write: got %v, want a *schemas.ValueError", err)
	}
}
