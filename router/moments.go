package router

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

const (
	localTime  = "2006-01-02T15:04:05"
	zonedTime  = "2006-01-02T15:04:05Z07:00"
	fractionAt = len(localTime)
)

// clock says how a source writes moments, where that is not the interface's own
// way, and in which zone they are meant.
type clock struct {
	format string    // as configured, for errors; "": the interface's own
	unit   epochUnit // 0: written as text
	layout string    // of text, Go's way; "": the interface's own
	zoned  bool      // the layout says the zone
	day    bool      // a date is wanted: the time of day may be missing
	// zone is the zone of what does not say its own, and the one that the result
	// is written in. Nil: what says none gets none.
	zone *time.Location
}

// epochUnit is what is counted from the first moment of 1970.
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

// The years that a date of ten characters can say.
var (
	firstTimestamp = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	endOfTime      = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// asDate takes a date, and the date of a timestamp: in the clock's zone, or as
// it is written there.
func asDate(v schemas.Value, c *converter) (schemas.Value, string) {
	if c == nil || c.clock == nil {
		if v.Kind() == schemas.String {
			if s, ok := date(v.Text()); ok {
				return schemas.StringValue(s), ""
			}
		}
		return schemas.Value{}, ruleDate
	}
	t, _, ok := c.clock.read(v)
	if !ok {
		return schemas.Value{}, c.clock.rule(ruleDate)
	}
	return formatted(t, time.DateOnly), ""
}

// asTimestamp takes a moment and cuts fractions of a second, for which the
// format has no place.
func asTimestamp(v schemas.Value, c *converter) (schemas.Value, string) {
	if c == nil || c.clock == nil {
		if v.Kind() == schemas.String {
			if s, ok := timestamp(v.Text()); ok {
				return schemas.StringValue(s), ""
			}
		}
		return schemas.Value{}, ruleTimestamp
	}
	t, zoned, ok := c.clock.read(v)
	switch {
	case !ok:
		return schemas.Value{}, c.clock.rule(ruleTimestamp)
	case zoned:
		return formatted(t, zonedTime), ""
	}
	return formatted(t, localTime), ""
}

func formatted(t time.Time, layout string) schemas.Value {
	var buffer [len(zonedTime)]byte
	return schemas.StringValue(string(t.AppendFormat(buffer[:0], layout)))
}

func (c *clock) rule(standard string) string {
	if c.format == "" {
		return standard
	}
	return "must be written as " + c.format
}

// read reads a moment in the clock's zone. zoned is false for one of which
// nobody knows the zone.
func (c *clock) read(v schemas.Value) (t time.Time, zoned, ok bool) {
	switch {
	case c.unit != 0:
		t, ok = c.unit.since1970(v)
		zoned = c.unit != epochDays
	case v.Kind() != schemas.String:
		return t, false, false
	case c.layout != "":
		t, ok = parseIn(c.layout, v.Text())
		zoned = c.zoned
	default:
		t, zoned, ok = c.standard(v.Text())
	}
	if !ok {
		return t, false, false
	}
	if c.zone != nil {
		if zoned {
			t = t.In(c.zone)
		} else {
			t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, c.zone)
		}
		zoned = true
	}
	return t, zoned, t.Year() >= 1 && t.Year() <= 9999
}

// parseIn reads text without a zone as if in UTC. The machine's own zone plays
// no part.
func parseIn(layout, s string) (time.Time, bool) {
	t, err := time.ParseInLocation(layout, s, time.UTC)
	return t, err == nil
}

// standard reads what the interface writes: a date, or a timestamp with or
// without a zone.
func (c *clock) standard(s string) (t time.Time, zoned, ok bool) {
	if c.day && len(s) == len(time.DateOnly) {
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

// timestamp takes a moment with or without a zone and cuts fractions of a
// second.
func timestamp(s string) (string, bool) {
	if len(s) > fractionAt && s[fractionAt] == '.' {
		digits := strings.TrimLeft(s[fractionAt+1:], "0123456789")
		if len(digits) == len(s)-fractionAt-1 {
			return "", false
		}
		s = s[:fractionAt] + digits
	}
	if isPlainTimestamp(s) {
		return s, true
	}
	layout := zonedTime
	if len(s) == len(localTime) {
		layout = localTime
	}
	_, ok := parseIn(layout, s)
	return s, ok
}

// isTimestamp reports whether s is a timestamp that says its zone.
func isTimestamp(s string) bool {
	s, ok := timestamp(s)
	return ok && len(s) > len(localTime)
}
