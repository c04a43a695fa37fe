package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// visit sends one write through a door and reports its status, 0 for none.
func visit(t *testing.T, d *door) int {
	t.Helper()
	body := `{"businessKey":"o1","properties":[{"name":"seq","value":3}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/custom-data/v4/entity/acme/customTable/orders/record", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

func newTestDoor(t *testing.T) (*door, *calls) {
	t.Helper()
	ledger := &calls{}
	d, err := newDoor("m1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), ledger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	return d, ledger
}

func TestDoorNotesWhatItLetsThrough(t *testing.T) {
	d, ledger := newTestDoor(t)
	if got := visit(t, d); got != http.StatusOK {
		t.Fatalf("got status %d, want 200", got)
	}
	list := ledger.take()
	if len(list) != 1 || list[0].row != (name{"orders", "o1"}) || list[0].seq != 3 || list[0].member != "m1" {
		t.Errorf("got %+v, want one call of m1 to order o1 with seq 3", list)
	}
}

func TestDeafDoorDoesButDoesNotAnswer(t *testing.T) {
	d, ledger := newTestDoor(t)
	d.set(deaf)
	if got := visit(t, d); got != 0 {
		t.Errorf("got status %d, want no answer", got)
	}
	if got := len(ledger.take()); got == 0 {
		t.Error("nothing was done, want the write")
	}
}

func TestClosedDoorResets(t *testing.T) {
	d, ledger := newTestDoor(t)
	d.set(down)
	if got := visit(t, d); got != 0 {
		t.Errorf("got status %d, want no answer", got)
	}
	if got := ledger.take(); len(got) != 0 {
		t.Errorf("got %v done, want nothing", got)
	}
	d.set(passing)
	if got := visit(t, d); got != http.StatusOK {
		t.Errorf("afterwards: got status %d, want 200", got)
	}
}

func TestSilentDoorDeliversNothingLate(t *testing.T) {
	d, ledger := newTestDoor(t)
	d.set(silent)
	ended := make(chan int)
	go func() { ended <- visit(t, d) }()
	select {
	case got := <-ended:
		t.Fatalf("got status %d through a silent door, want silence", got)
	case <-time.After(50 * time.Millisecond): // silence has no sign of its own
	}
	d.set(passing)
	if got := <-ended; got != 0 {
		t.Errorf("got status %d once the silence was over, want the connection reset", got)
	}
	if got := ledger.take(); len(got) != 0 {
		t.Errorf("got %v done, want nothing", got)
	}
}
