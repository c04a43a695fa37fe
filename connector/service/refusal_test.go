package service

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func TestOnlyTheDaysEndMeansNoSlot(t *testing.T) {
	cases := []struct {
		op     operation
		status int
		body   string
		want   Kind
	}{
		{opTrigger, 429, `{"error":"daily import limit reached"}`, NoSlot},
		{opTrigger, 403, `Maximum number of imports per day reached for table customers`, NoSlot},
		{opTrigger, 409, `no import slot left`, NoSlot},
		{opTrigger, 400, `{"code":"DAILY_IMPORT_LIMIT_REACHED"}`, NoSlot},
		{opTrigger, 422, `too many imports today (12)`, NoSlot},
		{opOneShot, 429, `import quota exceeded`, NoSlot},
		{opTrigger, 503, `no more slots available today`, NoSlot},
		{opTrigger, 429, ``, Throttled},
		{opTrigger, 429, `Too many requests`, Throttled},
		{opTrigger, 429, `request quota exceeded`, Throttled},
		{opTrigger, 429, `import limit: 3 per minute exceeded`, Throttled},
		{opTrigger, 429, `maximum number of concurrent imports reached`, Throttled},
		{opTrigger, 429, `too many executions running, limit 2 a day`, Throttled},
		{opTrigger, 413, `daily import limit reached`, Rejected},
		{opTrigger, 400, `file size exceeds the import limit of 100 MB`, Rejected},
		{opTrigger, 400, `column birthday exceeds 255 characters`, Rejected},
		{opTrigger, 404, `no slot left`, Transient},
		{opTrigger, 404, `{"error":"no slot left"}`, NotFound},
		{opUpsertProfile, 429, `daily import limit reached`, Throttled},
	}
	for _, tc := range cases {
		if got := refusal(tc.op, tc.status, http.Header{}, []byte(tc.body), nil); got.Kind() != tc.want {
			t.Errorf("%v %d %q: got %v, want %v", tc.op, tc.status, tc.body, got.Kind(), tc.want)
		}
	}
	e := refusal(opTrigger, 503, http.Header{}, []byte("no import slot left"), nil)
	if !e.NoSlot() || !e.Transient() || e.Unknown() {
		t.Errorf("got NoSlot %v, transient %v, unknown %v; want it transient and known", e.NoSlot(), e.Transient(), e.Unknown())
	}
}

func TestRetryAfterPastTheDayMeansNoSlot(t *testing.T) {
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	// 22:30 in UTC, half past midnight of the next day in Paris.
	now := time.Date(2026, 7, 1, 22, 30, 0, 0, time.UTC)
	cases := []struct {
		status int
		after  time.Duration
		zone   *time.Location
		want   bool
	}{
		{429, 89 * time.Minute, nil, false},
		{429, 90 * time.Minute, nil, true},
		{429, 90 * time.Minute, paris, false},
		{429, 24 * time.Hour, paris, true},
		{429, 72 * time.Hour, nil, false},
		{503, 24 * time.Hour, nil, false},
		{429, 0, nil, false},
	}
	for _, tc := range cases {
		if got := noSlot(tc.status, "", now, tc.after, tc.zone); got != tc.want {
			t.Errorf("%d after %v in %v: got %v, want %v", tc.status, tc.after, tc.zone, got, tc.want)
		}
	}
}

func TestTriggerKnowsTheTablesCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight UTC
		s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
		}}
		c := s.startInBubble(t)
		west := time.FixedZone("west", -3600)
		for _, tc := range []struct {
			zone *time.Location
			want Kind
		}{{nil, Throttled}, {west, NoSlot}} {
			_, pushed := c.Trigger(t.Context(), "101", fileOf("a\n"), tc.zone)
			_, remote := c.TriggerRemote(t.Context(), "101", tc.zone)
			_, single := c.OneShot(t.Context(), oneShotETL(), fileOf("a\n"), tc.zone)
			_, fetched := c.OneShotRemote(t.Context(), remoteETL(), tc.zone)
			for _, err := range []error{pushed, remote, single, fetched} {
				if got := errorOf(t, err).Kind(); got != tc.want {
					t.Errorf("%v in %v: got %v, want %v", err, tc.zone, got, tc.want)
				}
			}
		}
	})
}

func TestTheServicesClockSaysWhetherItsDayEnds(t *testing.T) {
	for date, want := range map[time.Time]Kind{
		time.Date(2026, 7, 1, 23, 0, 0, 0, time.UTC): NoSlot,
		time.Date(2026, 7, 1, 1, 0, 0, 0, time.UTC):  Throttled,
	} {
		header := http.Header{"Retry-After": {"7200"}, "Date": {date.Format(http.TimeFormat)}}
		e := refusal(opTrigger, http.StatusTooManyRequests, header, nil, time.UTC)
		if got := e.Kind(); got != want || !e.Answered().Equal(date) {
			t.Errorf("answered at %v: got %v at %v, want %v", date, got, e.Answered(), want)
		}
	}
	if got := refusal(opTrigger, http.StatusTooManyRequests, http.Header{}, nil, time.UTC).Answered(); !got.IsZero() {
		t.Errorf("answered without a Date: got %v, want that it did not say", got)
	}
}

func TestDayEndsWhereTheCalendarSays(t *testing.T) {
	for _, tc := range []struct {
		zone string
		from time.Time
		want time.Duration
	}{
		{"Europe/Paris", time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), 25 * time.Hour}, // the day's beginning: the clocks go back
		{"America/Havana", time.Date(2026, 3, 7, 17, 0, 0, 0, time.UTC), 12 * time.Hour}, // there is no midnight
		{"America/Santiago", time.Date(2026, 9, 5, 16, 0, 0, 0, time.UTC), 12 * time.Hour},
	} {
		zone, err := time.LoadLocation(tc.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := dayEnd(tc.from, zone).Sub(tc.from); got != tc.want {
			t.Errorf("%s after %v: got %v to the day's end, want %v", tc.zone, tc.from, got, tc.want)
		}
	}
}

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	cases := []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"7", 7 * time.Second},
		{" 7 ", 7 * time.Second},
		{"-7", 0},
		{"soon", 0},
		{"99999999999999999999", math.MaxUint32 * time.Second},
		{"3.2", 4 * time.Second},
		{"3, 5", 3 * time.Second},
		{now.Add(time.Minute).UTC().Format(time.RFC1123), time.Minute},
		{now.Add(time.Minute).UTC().Format(time.RFC1123Z), time.Minute},
		{at(time.Minute), time.Minute},
		{at(-time.Minute), 0},
		{"120s", 2 * time.Minute},
		{"+120", 2 * time.Minute},
		{"60;x", time.Minute},
		{now.Add(time.Minute).Format(time.RFC3339), time.Minute},
		{strconv.FormatInt(now.Add(5*time.Second).Unix(), 10), 5 * time.Second},
		{strconv.FormatInt(now.Add(5*time.Second).UnixMilli(), 10), 5 * time.Second},
		{strconv.FormatInt(now.Add(-time.Second).Unix(), 10), 0},
	}
	for _, tc := range cases {
		if got := retryAfter(http.Header{"Retry-After": {tc.header}}, now); got != tc.want {
			t.Errorf("%q: got %v, want %v", tc.header, got, tc.want)
		}
	}
	ahead := http.Header{"Retry-After": {at(time.Hour)}, "Date": {at(59 * time.Minute)}} // a service whose clock runs ahead
	if got := refusal(opResults, 429, ahead, nil, nil).RetryAfter(); got != time.Minute {
		t.Errorf("by the service's clock: got %v, want a minute", got)
	}
	e := refusal(opResults, 429, http.Header{"Retry-After": {"86400"}}, nil, nil)
	if e.RetryAfter() != maxRetryAfter {
		t.Errorf("got %v, want at most %v", e.RetryAfter(), maxRetryAfter)
	}
}

func TestReasonIsOnePrintableLineOf500Characters(t *testing.T) {
	got := printable("\t a\r\n\r\n b\x00\xffc\u200b " + strings.Repeat("ü ", 1000))
	if !strings.HasPrefix(got, "a bc ü ü") || utf8.RuneCountInString(got) > reasonLength || !utf8.ValidString(got) {
		t.Errorf("got %d characters beginning with %.20q", utf8.RuneCountInString(got), got)
	}
	if got := printable(strings.Repeat("x", 1000)); len(got) != reasonLength {
		t.Errorf("got %d characters, want %d", len(got), reasonLength)
	}
}

// TestUnknownETLNamesBothThatMayBeWrong: with another entity, no id is one of its ETLs.
func TestUnknownETLNamesBothThatMayBeWrong(t *testing.T) {
	e := refusal(opTrigger, http.StatusNotFound, http.Header{}, []byte(`{"error":"no such ETL"}`), nil)
	if got := e.Error(); !strings.Contains(got, "its id in the mapping's imports, or service.entity") {
		t.Errorf("got %q, want the id and the entity named", got)
	}
}
