package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestReadingShowsHowFarItIsAndMakesRoomForWhatIsPrinted(t *testing.T) {
	var screen bytes.Buffer
	r := &reading{bar: bar{to: &screen}}
	list := r.above(&screen)
	for i := range int64(40) {
		r.at(i+1, 50)
	}
	if got := screen.String(); !strings.Contains(got, "reading") || !strings.Contains(got, "/50") {
		t.Errorf("got %q, want how many of the 50 records are read", got)
	}
	screen.Reset()
	fmt.Fprintln(list, "a letter")
	if got := screen.String(); !strings.HasPrefix(got, "\r") || strings.Contains(got, "reading") || !strings.HasSuffix(got, "a letter\n") {
		t.Errorf("got %q, want the bar to be taken off before the line", got)
	}
	r.end()
	screen.Reset()
	r.end()
	fmt.Fprintln(list, "the last")
	if got := screen.String(); got != "the last\n" {
		t.Errorf("after its end: got %q, want nothing but the line", got)
	}
}

func TestNobodyWatchesWhereErrorsGoToNoTerminal(t *testing.T) {
	d := newHost(t)
	kafka := d.newBroker()
	brokers, err := kafka.ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.fill(fmt.Sprintf("%s:%d", brokers[0].Host, brokers[0].Port))
	for _, form := range []string{"text", "json"} {
		if code, out, failed := d.run("plan -o " + form); code != exitFine || strings.Contains(out, "reading") || strings.Contains(out, "\r") {
			t.Errorf("plan -o %s: got code %d, %s %s, want no progress in it", form, code, out, failed)
		}
	}
}
