//go:build !image

package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// static is a configuration with an instance id, and a session that ends after the test.
var static = strings.Replace(head, "sessionTimeout: 10s", "sessionTimeout: 5m, instanceId: ${INSTANCE}", 1) + deadLetters + mappings

// some are records of both lanes.
func (w *world) some(seq int) {
	w.t.Helper()
	w.produce(customer(fmt.Sprint("C", seq), "basic", seq), customer(fmt.Sprint("G", seq), "gold", seq), order(fmt.Sprint("o", seq), "PAID", seq))
}

func (w *world) runInstance(id string) *process {
	w.t.Helper()
	return w.runAs(static, map[string]string{"INSTANCE": id, "DIR": w.t.TempDir()})
}

func TestKilledProcessWithAnInstanceIDIsBackBeforeItsSessionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.some(1)
	first := w.runInstance("pod-1")
	w.settled()
	if err := first.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.wait() // it was killed
	w.some(2)
	killed := time.Now()
	second := w.runInstance("pod-1")
	w.settled()
	t.Logf("everything is confirmed %v after the start", time.Since(killed).Round(time.Millisecond))
	second.terminate(t)
	// It has left: another pod need not wait for its session.
	w.some(3)
	third := w.runInstance("pod-2")
	w.settled()
	third.terminate(t)
}

func TestOfTwoProcessesWithOneInstanceIDTheOlderEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.some(1)
	older := w.runInstance("pod-1")
	w.settled()
	newer := w.runInstance("pod-1")
	if err := older.wait(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("the older process: got %v, want exit status 1", err)
	}
	for _, words := range []string{"FENCED_INSTANCE_ID", `kafka.instanceId "pod-1"`, "Give each process an id of its own"} {
		if !strings.Contains(older.out.String(), words) {
			t.Errorf("the older process has not said %q:\n%s", words, older.out)
		}
	}
	w.some(2)
	w.settled()
	newer.terminate(t)
	if got := len(w.service.Rows("orders")); got != 2 {
		t.Errorf("orders: got %d rows, want 2", got)
	}
}

// TestMemberThatIsBackReadsTopicsThatAreNew: its group gives it the partitions that it had
// before, and shares the others only in a rebalance. Of the batch lane's balancer the client
// does not know that the partitions are to be shared anew.
func TestMemberThatIsBackReadsTopicsThatAreNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOrdersETL)
	before, _, _ := strings.Cut(static, "  - name: orders\n")
	after := strings.Replace(static, "    routes: [{lane: immediate}]\n", `    routes: [{lane: batch}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 500, bytes: 1MiB, age: 300ms}
      slotsPerDay: 1000
`, 1)
	w.some(1)
	first := w.runAs(before, map[string]string{"INSTANCE": "pod-1"}, "--lane", "batch")
	w.until("the customers are confirmed", func() bool { return w.service.Len("customers") == 1 })
	if err := first.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.wait() // it was killed
	second := w.runAs(after, map[string]string{"INSTANCE": "pod-1"}, "--lane", "batch")
	w.until("the order is there", func() bool { return w.service.Len("orders") == 1 })
	second.terminate(t)
}
