package connector

import (
	"testing"
	"time"
)

func TestImportsCountForTheDayOfTheClockThatTheSinkIsGiven(t *testing.T) {
	tomorrow := func() time.Time { return time.Now().Add(24 * time.Hour) }
	sink := assembled(t, Options{Wall: tomorrow})
	defer sink.close()
	if got := sink.now().pacing.Days("customers"); len(got) != 1 || time.Until(got[0]) < 23*time.Hour {
		t.Errorf("got %v, want tomorrow", got)
	}
}
