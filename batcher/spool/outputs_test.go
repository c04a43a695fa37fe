package spool

import (
	"errors"
	"testing"
)

func TestOutputFilesCountInTheSpoolAndShareTheirRoom(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
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
	if err := other.Keep(); err != nil {
		t.Fatal(err)
	}
	other.Drop()
	third := fetched("c-20260101T000000Z-aaaaaa.upsert.csv.gz")
	write(third, "1234567890", nil, 20) // what is kept is a file like any other
	third.Drop()
	if got := s.Kept("b"); len(got) != 1 || s.Used() != 10 {
		t.Errorf("in the end: got %q kept and %d bytes, want the kept one alone", got, s.Used())
	}
}
