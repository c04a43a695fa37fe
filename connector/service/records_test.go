package service

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetrievedRecordTellsWhatTheServiceAdded(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	for _, written := range []string{
		"2026-11-21T10:30:00+01:00", "2026-11-21T10:30:00.000+0100", "2026-11-21T09:30:00Z",
	} {
		r, found, err := recordAnswer([]byte(`{"businessKey":"k","properties":[{"name":"id","value":7},
			{"name":"creationMoment","value":"` + written + `"},{"name":"updateMoment","value":"` + written + `"},
			{"name":"status","value":"PAID"}]}`))
		if err != nil || !found || r.ID() != "7" || !r.Created().Equal(at) || !r.Updated().Equal(at) {
			t.Errorf("%s: got id %q, created %v, updated %v, %v", written, r.ID(), r.Created(), r.Updated(), err)
		}
		if got := string(r.Value("status")); got != `"PAID"` || r.Value("total") != nil {
			t.Errorf("got status %s and total %s, want \"PAID\" and none", got, r.Value("total"))
		}
	}
	r := Record{Properties: []Property{{"id", []byte(`[]`)}, {"creationMoment", []byte(`"yesterday"`)}}}
	if r.ID() != "" || !r.Created().IsZero() || !r.Updated().IsZero() {
		t.Errorf("got id %q, created %v, updated %v; want none of them", r.ID(), r.Created(), r.Updated())
	}
}

func TestWhatIsNoRecordIsNotTakenForOne(t *testing.T) {
	for _, body := range []string{
		`<html>`, `[]`, `"k"`, `7`, `{"status":"ok"}`, `{"businessKey":"k","properties":7}`,
		`{"businessKey":"k","properties":[7]}`, `{"businessKey":"k","properties":[{"value":1}]}`,
	} {
		if r, found, err := recordAnswer([]byte(body)); err == nil {
			t.Errorf("%s: got %+v, found %v; want an error", body, r, found)
		}
	}
}

func TestBusinessKeysAreReadInEveryShape(t *testing.T) {
	for body, want := range map[string]string{
		`{"businessKey":"k"}`: "k", `{"business_key":7}`: "7", `"k"`: "k", `{}`: "", `<html>`: "", ``: "",
	} {
		if got := (RecordRef{answer{body: []byte(body)}}).BusinessKey(); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestRecordTellsHowFarTheServicesClockIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at a whole second
		c := (&service{calls: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(30*time.Minute).UTC().Format(http.TimeFormat))
			_, _ = io.WriteString(w, `{"businessKey":"k","properties":[]}`)
		}}).startInBubble(t)
		if r, err := c.GetRecord(t.Context(), "orders", "k"); err != nil || r.Ahead != 30*time.Minute {
			t.Errorf("got %v, %v, want 30m", r.Ahead, err)
		}
	})
}
