package admin

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPauseSaysWhatThePersonSaid(t *testing.T) {
	d := &oneImport{}
	c, err := NewClient(d.serve(t), Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	asked := PauseRequest{Lane: "batch", Until: at, Reason: "the table & its keys are rebuilt"}
	var got shown
	if err := c.Pause(t.Context(), "customers", asked, &got); err != nil || got.Rows != 7 {
		t.Errorf("pause: got %+v, %v", got, err)
	}
	if err := c.Pause(t.Context(), "customers", PauseRequest{}, &got); err != nil {
		t.Errorf("pause of everything: %v", err)
	}
	if err := c.Resume(t.Context(), "customers", "immediate", &got); err != nil {
		t.Errorf("resume: %v", err)
	}
	if want := []PauseRequest{asked, {}, {Lane: "immediate"}}; !reflect.DeepEqual(d.paused, want) {
		t.Errorf("asked: got %+v, want %+v", d.paused, want)
	}
	for _, reserve := range []bool{false, true} {
		if err := c.Roll(t.Context(), "customers", reserve, &got); err != nil {
			t.Errorf("roll: %v", err)
		}
	}
	if want := []string{"customers false", "customers true"}; !slices.Equal(d.rolled, want) {
		t.Errorf("rolled: got %q, want %q", d.rolled, want)
	}
}

func TestPauseAndRollNeedTheHeaderNoForeignPageCanSend(t *testing.T) {
	d := &oneImport{}
	base := d.serve(t)
	for path, value := range map[string]string{"/mappings/customers/pause": "mappings", "/mappings/customers/resume": "mappings", "/imports/customers/roll": "imports"} {
		status, body := request(t, http.MethodPost, base+path)
		if status != http.StatusForbidden || !strings.Contains(body, "X-Feedsink: "+value) {
			t.Errorf("%s: got %d, %q, want 403 and the header's name", path, status, body)
		}
	}
	if len(d.paused)+len(d.rolled) > 0 {
		t.Errorf("got %v and %q done, want nothing", d.paused, d.rolled)
	}
	if status, body := request(t, http.MethodPost, base+"/mappings/customers/pause?until=noon", "X-Feedsink", "mappings"); status != http.StatusBadRequest || !strings.Contains(body, "until: ") {
		t.Errorf("a time that is none: got %d, %q, want 400", status, body)
	}
}
