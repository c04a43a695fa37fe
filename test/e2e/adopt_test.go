package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestImportOfAKilledMemberIsAdoptedNotRepeated(t *testing.T) {
	w := newWorld(t, nil)
	w.service.Hold() // the import takes as long as the test wants
	first := w.run(head + deadLetters + mappings)
	w.produce(customer("C1", "basic", 1), customer("C2", "basic", 2))
	w.until("the import is on record", func() bool { return strings.Contains(first.out.String(), "execution is on record") })
	if err := first.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.wait() // it was killed
	killed := time.Now()
	second := w.run(head + deadLetters + mappings)
	w.until("the next owner has found the import", func() bool {
		return strings.Contains(second.out.String(), "adopting the import of a former owner")
	})
	// The promise: the session timeout of the configuration, and five seconds.
	if took := time.Since(killed); took > 15*time.Second {
		t.Errorf("adopted %v after the kill, want within 15s", took)
	}
	w.service.Release()
	w.settled()
	if got := len(w.service.Executions()); got != 1 {
		t.Errorf("imports: got %d, want the one", got)
	}
	for _, key := range []string{"C1", "C2"} {
		if _, ok := w.service.Row("customers", key); !ok {
			t.Errorf("%s: is missing", key)
		}
	}
	second.terminate(t)
}
