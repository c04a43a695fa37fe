package files

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

func TestEntryIsNamedAfterTheDayInTheMappingsZone(t *testing.T) {
	m := Mapping{Entry: "orders-$YYYYMMDD.csv", Zone: time.FixedZone("", 9*3600)}
	if got, want := m.EntryName(time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC)), "orders-20260302.csv"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The columns of a file in a bundle are those that rows of its operation hold.
func TestOutputFilesOfABundleAreToldByEntryAndColumns(t *testing.T) {
	m := Mapping{
		Entry: "orders-$YYYYMMDD.csv", Table: schemas.Table{Name: "orders", Custom: true}, Bundle: "crm",
		Key:     spool.Key{Section: schemas.Properties, Name: "id"},
		Columns: []spool.Column{{Header: "ID", Section: schemas.Properties, Name: "id"}, {Header: "by", Section: schemas.Properties, Name: "by", CreateOnly: true}},
	}
	all, err := Formats([]Mapping{m}, "crm-x.upsert.zip")
	if err != nil {
		t.Fatal(err)
	}
	if f := all[0]; f.Key != "ID" || f.File != "orders" || f.Table != "orders" || len(f.Columns) != 1 {
		t.Errorf("got %+v, want the entry's name, the table and the column of its key", f)
	}
}
