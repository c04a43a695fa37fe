package waits_test

import (
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/waits"
)

func TestFullSpoolSaysWhatMakesRoom(t *testing.T) {
	open := func(mapping string) contract.MappingStatus { return contract.MappingStatus{Mapping: mapping, Bytes: 1} }
	on := func(step contract.Step) contract.MappingStatus {
		return contract.MappingStatus{Mapping: "a", Bytes: 1, Import: &contract.ImportStatus{Step: step}}
	}
	halted := on(contract.Halting)
	halted.Halted = "FAILED"
	for name, c := range map[string]struct {
		files  []contract.MappingStatus
		paused string
		slots  map[string]time.Duration
		why    string // its end
		until  time.Duration
	}{
		"an import":          {files: []contract.MappingStatus{open("b"), on(contract.Importing)}, why: "once an import has made room"},
		"a slot at once":     {files: []contract.MappingStatus{open("a"), halted}, why: "begins with what takes most of it, before it is due"},
		"a slot later":       {files: []contract.MappingStatus{open("a"), open("b")}, slots: map[string]time.Duration{"a": 2 * time.Hour, "b": time.Hour}, why: "feedsink imports roll --mapping b --reserve sends it now", until: time.Hour},
		"one that is paused": {files: []contract.MappingStatus{open("a"), open("b")}, paused: "b", slots: map[string]time.Duration{"a": 2 * time.Hour}, why: "feedsink imports roll --mapping a --reserve sends it now", until: 2 * time.Hour},
		"none can go":        {files: []contract.MappingStatus{halted, on(contract.Waiting), {Mapping: "c"}}, why: "whether files are kept in spool.dir"},
	} {
		w := waits.Spool(12, 10, c.files, func(m string) bool { return m == c.paused }, func(m string, _ *contract.Import, _ bool) time.Duration { return c.slots[m] })
		if w.Cause != waits.SpoolFull || !strings.HasSuffix(w.Why, c.why) {
			t.Errorf("%s: got %s, %q, want it to end with %q", name, w.Cause, w.Why, c.why)
		}
		if got := time.Until(w.Until).Round(time.Minute); c.until != max(got, 0) {
			t.Errorf("%s: got until in %v, want %v", name, got, c.until)
		}
	}
}
