package sandbox_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func TestSlotsAreCountedPerTableAndCalendarDay(t *testing.T) {
	brussels, err := time.LoadLocation("Europe/Brussels")
	if err != nil {
		t.Fatal(err)
	}
	now := newClock(t, "2026-10-25T00:00:00+02:00") // the day has 25 hours there
	c := config()
	c.Now, c.Location, c.SlotsPerDay = now.Now, brussels, 2
	c.TokenLifetime = 1000 * time.Hour
	c.Tables[1].SlotsPerDay = 1
	v := newService(t, c)

	v.load("up", "customerNumber\nC1\n")
	if e := v.load("up", "customerNumber\nC1,\n"); e.Status != sandbox.Failed {
		t.Errorf("got %s, want FAILED", e.Status) // it has used its slot all the same
	}
	w := v.push("drop", "file.csv", []byte("customerNumber\nC1\n"))
	if w.Code != 429 || !strings.Contains(w.Body.String(), "no import slot left for table customers today: 2 of 2 used") {
		t.Errorf("third import: got %d %s, want 429", w.Code, w.Body)
	}
	if got, want := w.Header().Get("Retry-After"), "90000"; got != want {
		t.Errorf("Retry-After: got %s, want %s", got, want)
	}
	v.load("orders", "businessKey\no1\n")
	if w := v.push("orders", "file.csv", []byte("businessKey\no1\n")); w.Code != 429 {
		t.Errorf("second import of orders: got %d, want 429", w.Code)
	}

	now.now = now.now.Add(90000*time.Second - 1)
	if w := v.push("up", "file.csv", nil); w.Code != 429 {
		t.Errorf("just before midnight: got %d, want 429", w.Code)
	}
	now.now = now.now.Add(1)
	v.load("up", "customerNumber\nC1\n")
	if got, want := v.SlotDays("customers"), map[string]int{"2026-10-25": 2, "2026-10-26": 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := v.SlotsUsed("customers", now.now); got != 1 {
		t.Errorf("today: got %d, want 1", got)
	}
}

func TestTwelveSlotsAreTheBaseLimit(t *testing.T) {
	now := newClock(t, fixedTime)
	c := config()
	c.Now = now.Now
	v := newService(t, c)
	for range 12 {
		v.load("up", "customerNumber\nC1\n")
	}
	if w := v.push("up", "file.csv", nil); w.Code != 429 {
		t.Errorf("13th import: got %d, want 429", w.Code)
	}
}

func TestImportThatAFaultKeptAwayUsesNoSlot(t *testing.T) {
	v := newService(t, config())
	v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10, Table: "customers"}, Count: 1, Answer: sandbox.Status(503)})
	if w := v.push("up", "file.csv", []byte("customerNumber\nC1\n")); w.Code != 503 {
		t.Errorf("got %d, want 503", w.Code)
	}
	if got := v.SlotsUsed("customers", time.Now()); got != 0 || len(v.Executions()) != 0 {
		t.Errorf("got %d slots and %d executions, want none", got, len(v.Executions()))
	}
	v.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Count: 1, Apply: true, Answer: sandbox.Status(http.StatusBadGateway)})
	if w := v.push("up", "file.csv", []byte("customerNumber\nC1\n")); w.Code != 502 {
		t.Errorf("got %d, want 502", w.Code)
	}
	if got := v.SlotsUsed("customers", time.Now()); got != 1 || len(v.Executions()) != 1 {
		t.Errorf("lost answer: got %d slots and %d executions, want one", got, len(v.Executions()))
	}
}
