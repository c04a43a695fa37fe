package values

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

func timeFormatOf(format, zone string, day bool) (f *timeFormat, problems []problem.Problem) {
	return newTimeFormat(problem.NewReporter("fields[0]", &problems), format, zone, day), problems
}

func TestTimestampsAreReadInTheirFormatAndZone(t *testing.T) {
	for _, tc := range []struct{ as, format, zone, in, want string }{
		{"timestamp", "epochMillis", "", `1795255200123`, `2026-11-21T10:00:00Z`},
		{"timestamp", "epochMillis", "", `"1795255200123"`, `2026-11-21T10:00:00Z`},
		{"timestamp", "epochMillis", "Europe/Paris", `1795255200123`, `2026-11-21T11:00:00+01:00`},
		{"timestamp", "epochMillis", "UTC", `1795255200123`, `2026-11-21T10:00:00Z`},
		{"timestamp", "epochMicros", "", `1795255200123456`, `2026-11-21T10:00:00Z`},
		{"timestamp", "epochNanos", "", `1795255200123456789`, `2026-11-21T10:00:00Z`},
		{"timestamp", "epochSeconds", "", `1795255200`, `2026-11-21T10:00:00Z`},
		{"timestamp", "epochSeconds", "", `1.7952552009e9`, `2026-11-21T10:00:00Z`},
		{"timestamp", "epochSeconds", "", `-0.5`, `1969-12-31T23:59:59Z`},
		{"timestamp", "epochMillis", "", `-1`, `1969-12-31T23:59:59Z`},
		{"timestamp", "epochDays", "", `20778`, `2026-11-21T00:00:00`},
		{"timestamp", "epochDays", "Europe/Paris", `20778`, `2026-11-21T00:00:00+01:00`},
		{"date", "epochDays", "", `20778`, `2026-11-21`},
		{"date", "epochDays", "America/New_York", `20778`, `2026-11-21`},
		{"date", "epochDays", "", `-719162`, `0001-01-01`},
		{"date", "epochDays", "", `2932896`, `9999-12-31`},
		{"date", "epochMillis", "", `1795302000000`, `2026-11-21`},
		{"date", "epochMillis", "Europe/Paris", `1795302000000`, `2026-11-22`},
		{"date", "", "Europe/Paris", `"2026-11-21T23:30:00Z"`, `2026-11-22`},
		{"date", "", "Europe/Paris", `"2026-11-21T23:30:00"`, `2026-11-21`},
		{"date", "", "Europe/Paris", `"2026-11-21"`, `2026-11-21`},
		{"timestamp", "", "Europe/Paris", `"2026-11-21T10:00:00.5"`, `2026-11-21T10:00:00+01:00`},
		{"timestamp", "", "Europe/Paris", `"2026-07-21T10:00:00Z"`, `2026-07-21T12:00:00+02:00`},
		{"timestamp", "", "Europe/Paris", `"2026-11-21 10:00"`, `2026-11-21T10:00:00+01:00`},
		{"timestamp", "", "Europe/Paris", `"2026-11-21T10:00:00-05:00"`, `2026-11-21T16:00:00+01:00`},
		{"date", "%d.%m.%Y", "", `"21.11.2026"`, `2026-11-21`},
		{"date", "%d.%m.%y", "", `"01.02.26"`, `2026-02-01`},
		{"date", "%Y%m%d", "", `"20261121"`, `2026-11-21`},
		{"date", "02/01/2006", "", `"21/11/2026"`, `2026-11-21`},
		{"date", "%d.%m.%Y %H:%M", "Europe/Paris", `"21.11.2026 23:30"`, `2026-11-21`},
		{"timestamp", "%d.%m.%Y %H:%M", "", `"21.11.2026 10:00"`, `2026-11-21T10:00:00`},
		{"timestamp", "%d.%m.%Y %H:%M", "Europe/Paris", `"21.11.2026 10:00"`, `2026-11-21T10:00:00+01:00`},
		{"timestamp", "2006-01-02 15:04:05", "", `"2026-11-21 10:00:00.123"`, `2026-11-21T10:00:00`},
		{"timestamp", "%Y-%m-%dT%H:%M:%S%z", "", `"2026-11-21T10:00:00+0100"`, `2026-11-21T10:00:00+01:00`},
		{"timestamp", "%Y-%m-%dT%H:%M:%S%z", "", `"2026-11-21T10:00:00Z"`, `2026-11-21T10:00:00Z`},
		{"timestamp", "%Y-%m-%dT%H:%M:%S%z", "America/New_York", `"2026-11-21T10:00:00+0100"`, `2026-11-21T04:00:00-05:00`},
		{"timestamp", "%a, %d %b %Y %I:%M %p", "", `"Sat, 21 Nov 2026 09:05 PM"`, `2026-11-21T21:05:00`},

		{"timestamp", "%Y-%m-%dT%H:%M:%S%z", "", `"2026-11-21T10:00:00-2400"`, `must be written as %Y-%m-%dT%H:%M:%S%z`},
		{"timestamp", "epochMillis", "", `"2026-11-21T10:00:00Z"`, `must be written as epochMillis`},
		{"timestamp", "epochMillis", "", `true`, `must be written as epochMillis`},
		{"timestamp", "epochSeconds", "", `253402300800`, `must be written as epochSeconds`},
		{"timestamp", "epochSeconds", "", `1e300`, `must be written as epochSeconds`},
		{"timestamp", "epochMicros", "", `9223372036854775807`, `must be written as epochMicros`},
		{"date", "epochDays", "", `2932897`, `must be written as epochDays`},
		{"date", "epochDays", "", `-719163`, `must be written as epochDays`},
		{"date", "%d.%m.%Y", "", `"11/21/2026"`, `must be written as %d.%m.%Y`},
		{"date", "%d.%m.%Y", "", `20261121`, `must be written as %d.%m.%Y`},
		{"timestamp", "", "UTC", `"2026-11-21"`, ruleTimestamp},
		{"timestamp", "", "UTC", `"0000-11-21T10:00:00"`, ruleTimestamp},
	} {
		format, problems := timeFormatOf(tc.format, tc.zone, tc.as == "date")
		if len(problems) > 0 {
			t.Errorf("%s %s: %v", tc.format, tc.zone, problems)
			continue
		}
		v, err := schemas.NewJSON().Decode([]byte(tc.in))
		if err != nil {
			t.Fatal(err)
		}
		out, got := conversions[tc.as](v, &Converter{time: format})
		if got == "" {
			got = out.Text()
		}
		if got != tc.want {
			t.Errorf("%s of %s (%s, %s): got %s, want %s", tc.as, tc.in, tc.format, tc.zone, got, tc.want)
		}
	}
}

func TestFormatsThatCannotWorkAreRefused(t *testing.T) {
	for _, tc := range []struct {
		format, zone string
		day          bool
		want         string
	}{
		{"dd.MM.yyyy", "", true, `format: "dd.MM.yyyy" does not say year, month and day; hint: did you mean "%d.%m.%Y"?`},
		{"yyyy-MM-dd'T'HH:mm:ss", "", false, `format: "yyyy-MM-dd'T'HH:mm:ss" does not say year, month and day; hint: did you mean "%Y-%m-%dT%H:%M:%S"?`},
		{"epochMilis", "", false, `format: "epochMilis" does not say year, month and day; hint: did you mean "epochMillis"?`},
		{"%H:%M", "", false, `format: "%H:%M" does not say year, month and day; hint: ` + hintFormat},
		{"%d.%m.%Y", "", false, `format: "%d.%m.%Y" does not say the hour; hint: ` + hintFormat},
		{"%d.%m", "", true, `format: "%d.%m" does not say year, month and day; hint: ` + hintFormat},
		{"%Y-%m-%d %H:%M %Z", "", false, `format: "%Y-%m-%d %H:%M %Z" reads the name of a time zone, which many zones share; hint: write %z for an offset, or timezone for a fixed zone`},
		{"%Q", "", false, `format: "%Q": `},
		{"", "Mars/Base", false, `timezone: "Mars/Base" is not a time zone; hint: ` + HintZone},
		{"", "Local", false, `timezone: "Local" is not a time zone; hint: ` + HintZone},
	} {
		_, problems := timeFormatOf(tc.format, tc.zone, tc.day)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), "fields[0]."+tc.want) {
			t.Errorf("%s %s: got %v, want %s", tc.format, tc.zone, problems, tc.want)
		}
	}
}

// FuzzTimestamp: whatever a source says, in whatever format, is refused or becomes
// a date or a timestamp as the interface writes them.
func FuzzTimestamp(f *testing.F) {
	for _, seed := range []string{"1795255200123", "-1", "2026-11-21T10:00:00.5+01:00", "2026-11-21T1:00:00,5-24:00", "2026-11-21 10:15+01", "21.11.2026", "1e18", "9223372036854775807"} {
		f.Add(seed, uint8(0))
		f.Add(seed, uint8(5))
	}
	formats := []string{"", "epochDays", "epochSeconds", "epochMillis", "epochMicros", "epochNanos", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S%z"}
	f.Fuzz(func(t *testing.T, text string, choice uint8) {
		zone := []string{"", "UTC", "America/New_York"}[int(choice/8)%3]
		format := formats[choice%8]
		for as, standard := range map[string]func(string) (string, bool){"date": date, "timestamp": timestamp} {
			compiled, problems := timeFormatOf(format, zone, as == "date")
			if len(problems) > 0 {
				t.Fatalf("%s %s: %v", format, zone, problems)
			}
			for _, v := range []schemas.Value{schemas.StringValue(text), schemas.NumberValue(text)} {
				out, rule := conversions[as](v, &Converter{time: compiled})
				if rule != "" {
					continue
				}
				if s, ok := standard(out.Text()); !ok || s != out.Text() {
					t.Fatalf("%s of %q (%s, %s): got %q, want what the interface takes", as, text, format, zone, out.Text())
				}
			}
		}
	})
}

// FuzzPlainSpellings: what is recognised in one look is what the whole grammar
// reads, in the same spelling.
func FuzzPlainSpellings(f *testing.F) {
	for _, s := range []string{
		"2026-11-21T10:00:00", "2026-11-21T10:00:00Z", "2026-02-28", "2026-02-30T00:00:00Z", "0000-00-00T24:60:60", "2026-13-01", "2026-1!-21T10:00:00",
		"0", "-0", "-1", "00", "01", "123456789", "-999999999", "9999999999", "", "-",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if isPlainTimestamp(s) {
			layout := zonedTime
			if len(s) == len(localTime) {
				layout = localTime
			}
			if at, ok := parseIn(layout, s); !ok || at.Format(layout) != s {
				t.Errorf("%q: got a timestamp, want %v", s, at)
			}
		}
		if isPlainDate(s) {
			if day, err := time.Parse(time.DateOnly, s); err != nil || day.Format(time.DateOnly) != s {
				t.Errorf("%q: got a date, want %v, %v", s, day, err)
			}
		}
		if isPlainInteger(s) {
			if n, err := strconv.ParseInt(s, 10, 32); err != nil || strconv.FormatInt(n, 10) != s {
				t.Errorf("%q: got a whole number, want %d, %v", s, n, err)
			}
		}
	})
}

func TestPlainSpellingsAreRecognised(t *testing.T) {
	for _, s := range []string{"2026-11-21T10:00:00", "2026-11-21T23:59:59Z"} {
		if !isPlainTimestamp(s) || !isPlainDate(s[:10]) {
			t.Errorf("%s: got no, want yes", s)
		}
	}
	for _, s := range []string{"0", "7", "-7", "123456789"} {
		if !isPlainInteger(s) {
			t.Errorf("%s: got no, want yes", s)
		}
	}
}
