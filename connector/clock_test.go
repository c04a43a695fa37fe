package connector

import (
	"testing"
	"time"
)

func TestImportsCountForTheDayOfTheClockThatTheSinkIsGiven(t *testing.T) {
	tomorrow := func() time.Time { return time.Now().Add(24 * time.Hour) }
	sink, err := assemble(t, Options{Wall: tomorrow})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.close()
	if got := sink.now().pacing.Days("customers"); len(got) != 1 || time.Until(got[0]) < 23*time.Hour {
		t.Errorf("got %v, want tomorrow", got)
	}
}
