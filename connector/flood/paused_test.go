package flood

import (
	"slices"
	"testing"
)

// started are the mappings whose calls start, as gates say it.
type started map[string]bool

func (s started) Halt(mapping string)   { s[mapping] = false }
func (s started) Resume(mapping string) { s[mapping] = true }
func (s started) Halted() int           { return 7 }

func TestMappingGoesOnOnceItIsNeitherHaltedNorPaused(t *testing.T) {
	f := batchGates(t)
	m, calls := f.gates[0].mapping, started{}
	f.lane.Calls = calls
	var got []bool
	for _, change := range []func(){
		func() { f.SetPaused(m, true) },
		func() { f.Ended("customers", 100, 100) }, // halts it
		func() { f.SetPaused(m, false) },
		func() { f.SetPaused(m, true) },
		func() { f.Release("customers") },
		func() { f.SetPaused(m, false) },
	} {
		change()
		got = append(got, calls["customers"])
	}
	if want := []bool{false, false, false, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("calls start: got %v, want %v", got, want)
	}
	if f.SetPaused(m, false) || !f.SetPaused(m, true) || f.SetPaused(m, true) {
		t.Error("SetPaused: want it to tell what is a change")
	}
	if f.Halted(m) || f.Waiting() != 7 {
		t.Errorf("paused: got halted %t and %d waiting, want records to come, and what waits to take no room", f.Halted(m), f.Waiting())
	}
}
