package spool

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

func TestListTellsWhatEachFileIs(t *testing.T) {
	dir := t.TempDir()
	const stem = "customers-20261124T101112Z-abcdef"
	for _, name := range []string{
		stem + ".journal", stem + ".upsert.csv.gz", stem + ".upsert2-3.csv.gz.part", stem + ".upsert.csv.gz.failed", stem + ".delete.csv.errors",
		stem + ".delete.csv.errors.part", stem + ".delete.csv.failed.part", "more-" + stem + ".journal", stem + ".receipts", "lock", "notes.csv",
	} {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	list, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	const of = "customers"
	want := []Listed{
		{stem + ".delete.csv.errors", of, KeptOutputs, stem + ".delete.csv"},
		{stem + ".delete.csv.errors.part", of, Unfinished, stem + ".delete.csv"},
		{stem + ".delete.csv.failed.part", of, Unfinished, stem + ".delete.csv"},
		{stem + ".journal", of, Journaled, ""},
		{stem + ".upsert.csv.gz", of, Sealed, stem + ".upsert.csv.gz"},
		{stem + ".upsert.csv.gz.failed", of, KeptFailed, stem + ".upsert.csv.gz"},
		{stem + ".upsert2-3.csv.gz.part", of, Unfinished, stem + ".upsert2-3.csv.gz"},
		{"more-" + stem + ".journal", "more-" + of, Journaled, ""},
	}
	if len(list) != len(want) {
		t.Fatalf("got %v, want %v", list, want)
	}
	for i := range want {
		if list[i] != want[i] {
			t.Errorf("got %+v, want %+v", list[i], want[i])
		}
	}
	if list, err := List(filepath.Join(dir, "none")); list != nil || err != nil {
		t.Errorf("of no directory: got %v, %v, want nothing", list, err)
	}
}

// What another process has written of a journal is found, whatever it is writing now.
func TestRowsOfAKeyAreFoundInAJournal(t *testing.T) {
	s := opened(t, t.TempDir())
	defer func() { _ = s.Close() }()
	rows, err := NewRows(Key{schemas.Attributes, "id"}, []Column{{Header: "id", Section: schemas.Attributes, Name: "id"}}, CSV{})
	if err != nil {
		t.Fatal(err)
	}
	j := NewJournal(s, NewName("customers", rand.New(rand.NewPCG(1, 2)))+JournalSuffix, 1, 100)
	for _, key := range []string{"A", "B,1", "A", "AA", "B,1", "A"} {
		if _, err := j.Add(rows, &schemas.Write{Op: schemas.Upsert, Key: key}); err != nil {
			t.Fatal(err)
		}
		check(t, j.MakeRoom())
	}
	count := func(key string, want int64) {
		t.Helper()
		if n, err := RowsOf(s.Path(j.name), key); n != want || err != nil {
			t.Errorf("%s: got %d rows, %v, want %d", key, n, err, want)
		}
	}
	count("A", 3)
	count("B,1", 2)
	count("B", 0)
	check(t, os.Truncate(s.Path(j.name), j.segments[5].at+1))
	count("A", 2) // the last is being written
}

func TestRewriteThatFailsLeavesTheFile(t *testing.T) {
	dir := t.TempDir()
	const name = "customers-20261124T101112Z-abcdef.upsert.csv.failed"
	check(t, os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600))
	said := func(want string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want || err != nil || len(entries) != 1 {
			t.Errorf("got %q, %v in %d files, want %q alone", got, err, len(entries), want)
		}
	}
	refused := errors.New("refused")
	if err := Rewrite(dir, name, func(_ *os.File, to io.Writer) error {
		_, _ = io.WriteString(to, strings.Repeat("half", 1<<16))
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("got %v, want it to be refused", err)
	}
	said("old")
	if err := Rewrite(dir, name, func(_ *os.File, to io.Writer) error {
		_, err := io.WriteString(to, "new")
		return err
	}); err != nil {
		t.Error(err)
	}
	said("new")
}
