package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestOutputFilesCountInTheSpoolAndShareTheirRoom(t *testing.T) {
	s := opened(t, t.TempDir())
	defer func() { _ = s.Close() }()
	fetched := func(name string) *OutputFiles {
		t.Helper()
		o, err := s.OutputFiles(name, 10)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	one, other := fetched("a-20260101T000000Z-aaaaaa.upsert.csv.gz"), fetched("b-20260101T000000Z-aaaaaa.upsert.csv.gz")
	write := func(o *OutputFiles, text string, want error, used int64) {
		t.Helper()
		if _, err := o.Write([]byte(text)); !errors.Is(err, want) || s.Used() != used {
			t.Errorf("write %q: got %v and %d bytes, want %v and %d", text, err, s.Used(), want, used)
		}
	}
	write(one, "123456", nil, 6)
	write(other, "12345", ErrNoRoom, 6)
	write(other, "1234", nil, 10)
	write(one, "12345", ErrTooLarge, 10)
	one.Drop()
	write(other, "123456", nil, 10)
	check(t, other.Keep())
	other.Drop()
	third := fetched("c-20260101T000000Z-aaaaaa.upsert.csv.gz")
	write(third, "1234567890", nil, 20) // what is kept is a file like any other
	third.Drop()
	if got := s.Kept("b"); len(got) != 1 || s.Used() != 10 {
		t.Errorf("in the end: got %q kept and %d bytes, want the kept one alone", got, s.Used())
	}
}

// A sink of 1,000 mappings asks for each of them, over and over, while it has thousands of files.
func TestKeptFilesAreFoundWithoutALookAtTheOthers(t *testing.T) {
	s := opened(t, t.TempDir())
	defer func() { _ = s.Close() }()
	for i := range 100 {
		s.resize(fmt.Sprintf("b-20261125T072238Z-aaa%03d.journal", i), 10)
		s.resize(NewName("b", rand.New(rand.NewPCG(1, uint64(i))))+".upsert.csv.gz", 10)
	}
	if got := testing.AllocsPerRun(10, func() { s.Kept("b") }); got > 0 {
		t.Errorf("none is kept: got %v pieces of memory taken for names of other files, want none", got)
	}
	const failed = "b-20261125T072238Z-pawgi7.upsert.csv.gz" + FailedSuffix
	s.resize(failed, 10)
	if got := s.Kept("b"); !slices.Equal(got, []string{failed}) {
		t.Errorf("got %v, want the file that is kept", got)
	}
	s.resize(failed, 0)
	if got := s.Kept("b"); len(got) != 0 {
		t.Errorf("removed: got %v, want none", got)
	}
}
