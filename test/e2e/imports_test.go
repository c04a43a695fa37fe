package e2e_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

// releaseCommand is what the sink tells a person to type.
var releaseCommand = regexp.MustCompile(`feedsink (imports release --mapping [^\s"]+)`)

func TestHaltedImportGoesOnOnceItIsReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.FailImports("customers", 2, "the execution timed out") // the first try and the one further
	sink := w.run(head + deadLetters + mappings)
	address := sink.admin(w)
	imports := func(args string) (string, int) {
		return execute(t, append(strings.Fields(args), "--server", "http://"+address)...)
	}
	only := func() observe.MappingImports {
		out, code := imports("imports list -o json")
		var list []observe.MappingImports
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list) != 1 {
			t.Fatalf("imports list: got exit code %d, %v, %s, want customers alone", code, err, out)
		}
		return list[0]
	}
	w.until("the sink has the table", func() bool { return only().Owned })
	if out, code := imports("imports release --mapping customers"); code != 1 || !strings.Contains(out, "nothing to release") {
		t.Errorf("release before anything is halted: got exit code %d, %s, want 1 and that there is nothing", code, out)
	}
	w.produce(customer("C1", "basic", 1))
	w.until("the mapping halts", func() bool { return only().Halted != "" })
	w.until("the log says so", func() bool { return releaseCommand.MatchString(sink.out.String()) })

	halted := only()
	if len(halted.Kept) != 1 || halted.Import == nil || halted.Kept[0] != halted.Import.File+".failed" {
		t.Errorf("halted: got %+v, want its one file kept", halted)
	}
	if halted.SlotsLeft == nil || *halted.SlotsLeft != 998 {
		t.Errorf("halted: got %v slots left, want 998 of 1000 after two tries", halted.SlotsLeft)
	}
	out, _ := imports("imports list")
	release := releaseCommand.FindStringSubmatch(out)
	for name, text := range map[string]string{"imports list": out, "/status": get(t, address, "/status"), "the log": sink.out.String()} {
		if got := releaseCommand.FindStringSubmatch(text); got == nil || got[1] != "imports release --mapping customers" {
			t.Errorf("%s: got %q, want the command that resolves the halt in\n%s", name, got, text)
		}
	}
	if out, code := imports("imports show --mapping customers"); code != 0 || !strings.Contains(out, "FAILED: the execution timed out") {
		t.Errorf("show: got exit code %d, %s, want the service's reason", code, out)
	}
	if release == nil {
		t.FailNow()
	}
	if out, code := imports(release[1]); code != 0 || !strings.Contains(out, halted.Import.File) {
		t.Errorf("release: got exit code %d, %s, want the file that is sent again", code, out)
	}
	w.settled()
	if row, ok := w.service.Row("customers", "C1"); !ok || row.Text("seq") != "1" {
		t.Errorf("C1: got %v, want the row of the released file", row)
	}
	var ends []sandbox.ExecutionStatus
	for _, e := range w.service.Executions() {
		ends = append(ends, e.Status)
	}
	if len(ends) != 3 || ends[0] != sandbox.Failed || ends[1] != sandbox.Failed || ends[2] != sandbox.Finished {
		t.Errorf("executions: got %v, want two FAILED and one FINISHED", ends)
	}
	// The partitions go on too.
	w.produce(customer("C2", "basic", 2))
	w.settled()
	w.until("nothing is halted or kept", func() bool { m := only(); return m.Halted == "" && m.Import == nil && len(m.Kept) == 0 })
	sink.terminate(t)
	if out, code := imports("imports list"); code != 1 || !strings.Contains(out, "is it running there?") {
		t.Errorf("without a sink: got exit code %d, %s, want 1 and what to look at", code, out)
	}
}

func TestRestartWhileAnImportIsRefusedTakesNoSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Answer: sandbox.Status(http.StatusNotFound)}) // the ETL is gone
	sink := w.start(head + deadLetters + mappings)
	w.produce(customer("C1", "basic", 1))
	for restart := range 3 {
		w.until("the mapping is halted", func() bool {
			return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), `feedsink_halted{mapping="customers"} 1`)
		})
		if got := w.slotsLeft(sink); got != "999" {
			t.Errorf("slots left after %d restarts: got %s, want 999 of 1000: one was tried for", restart, got)
		}
		sink.stop()
		sink = w.start(head + deadLetters + mappings)
	}
	w.until("the mapping is halted", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), `feedsink_halted{mapping="customers"} 1`)
	})
	w.service.ClearFaults()
	if out, code := execute(t, "imports", "release", "--mapping", "customers", "--server", "http://"+sink.AdminAddress()); code != 0 {
		t.Errorf("release: got exit code %d, %s", code, out)
	}
	w.settled()
	if got := len(w.service.Executions()); got != 1 {
		t.Errorf("imports: got %d, want one", got)
	}
}
