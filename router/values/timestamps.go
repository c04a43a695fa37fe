package values

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-strftime"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

const (
	localTime = "2006-01-02T15:04:05"
	zonedTime = "2006-01-02T15:04:05Z07:00"
)

// timeFormat says how a source writes dates or timestamps, where that is not the
// interface's own way, and in which zone they are meant.
type timeFormat struct {
	format string    // as configured, for errors; "": the interface's own
	unit   epochUnit // 0: written as text
	layout string    // of text, Go's way; "": the interface's own
	zoned  bool      // the layout says the zone
	day    bool      // a date is wanted: the time of day may be missing
	// zone is the zone of what does not say its own, and the one that the result
	// is written in. Nil: what says none gets none.
	zone *time.Location
}

// epochUnit is what is counted from the beginning of 1970.
type epochUnit int64

// The units of the epoch formats. Days are calendar days, of no zone.
const (
	epochNanos   = epochUnit(time.Nanosecond)
	epochMicros  = epochUnit(time.Microsecond)
	epochMillis  = epochUnit(time.Millisecond)
	epochSeconds = epochUnit(time.Second)
	epochDays    = epochUnit(24 * time.Hour)
)

var epochUnits = map[string]epochUnit{
	"epochDays": epochDays, "epochSeconds": epochSeconds, "epochMillis": epochMillis,
	"epochMicros": epochMicros, "epochNanos": epochNanos,
}

const (
	// HintZone is what to write for a time zone.
	HintZone = "write an IANA name such as Europe/Paris or UTC"
	// hintFormat shows the three ways to write a format.
	hintFormat = "write %d.%m.%Y %H:%M:%S, or 02.01.2006 15:04:05 as Go does, or a count such as epochMillis"
)

// Zone reports a text that is not the name of a time zone.
func Zone(at problem.Reporter, path, name string) *time.Location {
	zone, err := LoadZone(name)
	if err != nil {
		at.Report(path, HintZone, "%v", err)
	}
	return zone
}

// LoadZone is the time zone of an IANA name. The machine's own is none, by neither of its names:
// the result would depend on the machine.
func LoadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" || name == "localtime" {
		return nil, fmt.Errorf("%q is not a time zone", name)
	}
	return zone, nil
}

// newTimeFormat compiles `format` and `timezone`; day is true where a date is wanted
// and the time of day may be missing. It is nil where both are empty.
func newTimeFormat(at problem.Reporter, format, zone string, day bool) *timeFormat {
	if format == "" && zone == "" {
		return nil
	}
	f := &timeFormat{format: format, day: day}
	if zone != "" {
		f.zone = Zone(at, "timezone", zone)
	}
	if f.unit = epochUnits[format]; f.unit == 0 && format != "" {
		f.compileLayout(at)
	}
	return f
}

// compileLayout reads a format: `%` stands for strftime's, anything else is Go's own.
// It refuses one that does not say the day, or the hour where a timestamp is wanted:
// it writes a time, reads it back and looks what is left.
func (f *timeFormat) compileLayout(at problem.Reporter) {
	f.layout = f.format
	if strings.Contains(f.format, "%") {
		layout, err := strftime.Layout(f.format)
		if err != nil {
			at.Report("format", hintFormat, "%q: %s", f.format, strings.TrimPrefix(err.Error(), "strftime: "))
			return
		}
		// strftime's %z is an offset; who writes offsets writes Z for none of it too.
		f.layout = strings.NewReplacer("-0700", "Z0700", "-07:00", "Z07:00").Replace(layout)
	}
	f.zoned = strings.Contains(f.layout, "Z07") || strings.Contains(f.layout, "-07")
	example := time.Date(2017, time.December, 28, 19, 48, 57, 0, time.UTC)
	back, ok := parseIn(f.layout, example.Format(f.layout))
	switch {
	case strings.Contains(f.layout, "MST"):
		// Abbreviations are ambiguous, and an unknown one would be read as UTC.
		at.Report("format", "write %z for an offset, or timezone for a fixed zone", "%q reads the name of a time zone, which many zones share", f.format)
	case !ok || back.Format(time.DateOnly) != example.Format(time.DateOnly):
		at.Report("format", f.hint(), "%q does not say year, month and day", f.format)
	case !f.day && back.Hour() != example.Hour():
		at.Report("format", f.hint(), "%q does not say the hour", f.format)
	}
}

// hint guesses what was meant by a format that is not one.
func (f *timeFormat) hint() string {
	if strings.HasPrefix(f.format, "epoch") {
		return problem.Suggest(f.format, slices.Sorted(maps.Keys(epochUnits))...)
	}
	// The way of Java's formatters, which the interface's document uses too.
	meant := strings.NewReplacer(
		"yyyy", "%Y", "yy", "%y", "MM", "%m", "dd", "%d", "HH", "%H", "mm", "%M", "ss", "%S", "XXX", "%z", "'T'", "T",
	).Replace(f.format)
	if meant != f.format {
		return "did you mean \"" + meant + "\"?"
	}
	return hintFormat
}

// Dates and timestamps as the interface writes them.
var (
	standardDate      = textual(ruleDate, date)
	standardTimestamp = textual(ruleTimestamp, timestamp)
)

// asDate takes a date, and the date of a timestamp: in the format's zone, or as
// it is written there.
func asDate(v schemas.Value, c *Converter) (schemas.Value, string) {
	if c == nil || c.time == nil {
		return standardDate(v, nil)
	}
	t, _, ok := c.time.read(v)
	if !ok {
		return schemas.Value{}, c.time.rule(ruleDate)
	}
	return formatted(t, time.DateOnly), ""
}

// asTimestamp takes a timestamp and cuts fractions of a second, for which the
// format has no place.
func asTimestamp(v schemas.Value, c *Converter) (schemas.Value, string) {
	if c == nil || c.time == nil {
		return standardTimestamp(v, nil)
	}
	t, zoned, ok := c.time.read(v)
	switch {
	case !ok:
		return schemas.Value{}, c.time.rule(ruleTimestamp)
	case zoned:
		return formatted(t, zonedTime), ""
	}
	return formatted(t, localTime), ""
}

// Timestamp writes t in UTC.
func Timestamp(t time.Time) schemas.Value { return formatted(t.UTC(), zonedTime) }

func formatted(t time.Time, layout string) schemas.Value {
	var buffer [len(zonedTime)]byte
	return schemas.StringValue(string(t.AppendFormat(buffer[:0], layout)))
}

// neverZoned reports whether nothing says the zone of what is read.
func (f *timeFormat) neverZoned() bool {
	return f.zone == nil && (f.unit == epochDays || f.layout != "" && !f.zoned)
}

func (f *timeFormat) rule(standard string) string {
	if f.format == "" {
		return standard
	}
	return "must be written as " + f.format
}

// read reads a date or timestamp in the format's zone. zoned is false for one whose
// zone is unknown.
func (f *timeFormat) read(v schemas.Value) (t time.Time, zoned, ok bool) {
	switch {
	case f.unit != 0:
		t, ok = f.unit.since1970(v)
		zoned = f.unit != epochDays
	case v.Kind() != schemas.String:
		return t, false, false
	case f.layout != "":
		t, ok = parseIn(f.layout, v.Text())
		zoned = f.zoned
	default:
		t, zoned, ok = f.standard(v.Text())
	}
	if !ok {
		return t, false, false
	}
	if f.zone != nil {
		if zoned {
			t = t.In(f.zone)
		} else {
			t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, f.zone)
		}
		zoned = true
	}
	return t, zoned, t.Year() >= 1 && t.Year() <= 9999 && offsetIsWritable(t)
}

// parseIn reads text without a zone as if in UTC. The machine's own zone plays
// no part.
func parseIn(layout, s string) (time.Time, bool) {
	t, err := time.ParseInLocation(layout, s, time.UTC)
	return t, err == nil
}

// standard reads what the interface writes: a date, or a timestamp with or
// without a zone.
func (f *timeFormat) standard(s string) (t time.Time, zoned, ok bool) {
	if f.day && len(s) == len(time.DateOnly) {
		t, ok = parseIn(time.DateOnly, s)
		return t, false, ok
	}
	if s, ok = timestamp(s); !ok {
		return t, false, false
	}
	if len(s) == len(localTime) {
		t, ok = parseIn(localTime, s)
		return t, false, ok
	}
	t, ok = parseIn(zonedTime, s)
	return t, true, ok
}

// The years that a date of ten characters can say.
var (
	firstTimestamp = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	endOfTime      = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// since1970 reads a count of units, a number or its text. What it counts beyond
// whole units (seconds with a fraction) is cut.
func (u epochUnit) since1970(v schemas.Value) (time.Time, bool) {
	plain, ok := decimalOf(v, 0)
	if !ok {
		return time.Time{}, false
	}
	whole, fraction, _ := strings.Cut(plain, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	if plain[0] == '-' && strings.Trim(fraction, "0") != "" && n > math.MinInt64 {
		n-- // towards the past, as everything else is cut
	}
	if u >= epochSeconds {
		perUnit := int64(u / epochSeconds)
		if n < firstTimestamp.Unix()/perUnit || n > endOfTime.Unix()/perUnit {
			return time.Time{}, false
		}
		return time.Unix(n*perUnit, 0).UTC(), true
	}
	perSecond := int64(epochSeconds / u)
	seconds, rest := n/perSecond, n%perSecond
	return time.Unix(seconds, rest*int64(u)).UTC(), true
}

// date takes a date, and a timestamp's date as it is written there.
func date(s string) (string, bool) {
	if len(s) != len(time.DateOnly) {
		day, ok := timestamp(s)
		if !ok {
			return "", false
		}
		return day[:len(time.DateOnly)], true
	}
	if isPlainDate(s) {
		return s, true
	}
	_, err := time.Parse(time.DateOnly, s)
	return s, err == nil
}

// timestamp takes one with or without a zone, in the ways of ISO 8601 and of SQL, and
// returns it as the interface writes it.
func timestamp(s string) (string, bool) {
	if isPlainTimestamp(s) {
		return s, true
	}
	s, ok := respelt(s)
	if !ok || isPlainTimestamp(s) {
		return s, ok
	}
	layout := zonedTime
	switch len(s) {
	case len(localTime):
		layout = localTime
	case len(localTime) + len("Z"), len(zonedTime):
	default:
		return "", false // time.Parse takes hours of one digit, too
	}
	t, ok := parseIn(layout, s)
	return s, ok && offsetIsWritable(t)
}

// respelt has a T before the time of day, :00 where a timestamp has no seconds, no fraction
// of a second, which comes behind a point or a comma, and Z or an offset with its minutes.
func respelt(s string) (string, bool) {
	const clockAt = len("2006-01-02T")
	if len(s) < clockAt || !strings.Contains("Tt ", s[clockAt-1:clockAt]) {
		return "", false
	}
	clock, zone := s[clockAt:], ""
	if at := strings.IndexAny(clock, "Zz+-"); at >= 0 {
		clock, zone = clock[:at], clock[at:]
	}
	if at := strings.IndexAny(clock, ".,"); at >= 0 {
		fraction := clock[at+1:]
		if clock = clock[:at]; len(clock) != len("15:04:05") || fraction == "" || strings.Trim(fraction, "0123456789") != "" {
			return "", false
		}
	}
	if len(clock) == len("15:04") {
		clock += ":00"
	}
	switch len(zone) {
	case len("Z"):
		zone = strings.ToUpper(zone)
	case len("+07"):
		zone += ":00"
	case len("+0700"):
		zone = zone[:3] + ":" + zone[3:]
	}
	return s[:clockAt-1] + "T" + clock + zone, true
}

// offsetIsWritable reports whether the offset of t is one that a zone may have: time.Parse takes
// 24 hours for one, too.
func offsetIsWritable(t time.Time) bool {
	_, offset := t.Zone()
	return -24*60*60 < offset && offset < 24*60*60
}

// Nearly every timestamp comes in its plainest spelling, which isPlainTimestamp and
// isPlainDate recognise without the work that the whole grammar takes; what they do
// not recognise may be good all the same.

// isPlainTimestamp recognises 2006-01-02T15:04:05, with Z behind it or nothing.
func isPlainTimestamp(s string) bool {
	if len(s) != len(localTime) && (len(s) != len(localTime)+1 || s[len(localTime)] != 'Z') {
		return false
	}
	return isPlainDate(s[:10]) && s[10] == 'T' && s[13] == ':' && s[16] == ':' &&
		twoDigits(s, 11) < 24 && twoDigits(s, 14) < 60 && twoDigits(s, 17) < 60
}

// isPlainDate recognises 2006-01-02.
func isPlainDate(s string) bool {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' || twoDigits(s, 0) > 99 || twoDigits(s, 2) > 99 {
		return false
	}
	month, day := twoDigits(s, 5), twoDigits(s, 8)
	// The last days of months, which differ, are left to the calendar.
	return month >= 1 && month <= 12 && day >= 1 && day <= 28
}

// twoDigits is the number that two digits of s say, more than 99 if they are none.
func twoDigits(s string, at int) uint {
	tens, ones := uint(s[at]-'0'), uint(s[at+1]-'0')
	if tens > 9 || ones > 9 {
		return 100
	}
	return 10*tens + ones
}
