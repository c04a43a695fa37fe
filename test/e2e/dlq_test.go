package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/replay"
)

const letters = 10_000

// TestTenThousandDeadLettersSurviveAKilledReplay: some of their rows got newer
// values since, some get them while the replay runs, and the replay is killed in
// the middle.
func TestTenThousandDeadLettersSurviveAKilledReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.run(head + strings.Replace(deadLetters, "dlq}", "dlq, flood: {records: 0}}", 1) + mappings)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(400)})
	records := make([]*kgo.Record, letters)
	for i := range records {
		records[i] = order(fmt.Sprintf("o%d", i), "OLD", i)
	}
	w.produce(records...)
	w.settled()
	w.service.ClearFaults()
	newer := map[int]bool{}
	update := func(every, from int) {
		var records []*kgo.Record
		for i := from; i < letters; i += every {
			newer[i] = true
			records = append(records, order(fmt.Sprintf("o%d", i), "NEW", letters+i))
		}
		w.produce(records...)
	}
	update(10, 0) // superseded before the replay begins
	w.settled()

	dlq := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), binary, append(args, "-c", filepath.Join(w.dir, "feedsink.yaml"), "-o", "json")...)
		cmd.Env = sink.cmd.Env
		cmd.Stderr = os.Stderr
		return cmd
	}
	groups := func() (n int) {
		var counts []struct {
			Letters int `json:"letters"`
		}
		read(t, dlq("dlq", "list", "--by", "mapping,reason"), &counts)
		for _, c := range counts {
			n += c.Letters
		}
		return n
	}
	if got := groups(); got != letters {
		t.Fatalf("dlq list: got %d letters, want %d", got, letters)
	}
	var one []struct{ Reason, Message string }
	if read(t, dlq("dlq", "list", "--key", "o4711"), &one); len(one) != 1 || one[0].Reason != "rejected" {
		t.Errorf("dlq list --key: got %+v, want the one", one)
	}

	before := w.service.Len("orders")
	killed := dlq("dlq", "replay", "--rate", "2000/s")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	w.until("a third is replayed", func() bool { return w.service.Len("orders") > before+letters/3 })
	update(7, 3) // while it runs
	if err := (&process{cmd: killed}).signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := killed.Wait(); err == nil {
		t.Fatal("the replay ended before it was killed")
	}
	update(11, 5) // and before it runs again
	w.settled()

	var report replay.Report
	again := dlq("dlq", "replay")
	out, err := again.Output()
	if err != nil {
		t.Fatalf("the second replay: %v\n%s", err, out)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	t.Logf("the second replay: %+v", report)
	if report.Selected+report.Done != letters || report.Done == 0 || report.Superseded == 0 || !report.Ended() {
		t.Errorf("the second replay: got %+v, want the rest of %d, all ended", report, letters)
	}
	if got := groups(); got != 0 {
		t.Errorf("dlq list after all: got %d open letters, want none", got)
	}
	wrong := 0
	for i := range letters {
		want := "OLD"
		if newer[i] {
			want = "NEW"
		}
		key := fmt.Sprintf("o%d", i)
		row, ok := w.service.Row("orders", key)
		if !ok || row.Text("status") != want {
			if wrong++; wrong <= 10 {
				t.Errorf("%s: got %v, want %s", key, row, want)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d rows are wrong", wrong)
	}
	sink.terminate(t)
	if strings.Contains(string(out), apiKey) {
		t.Error("the report holds the API key")
	}
}

// read runs a command that prints JSON.
func read(t *testing.T, cmd *exec.Cmd, into any) {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}
