package router

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-strftime"
)

// newClock compiles `format` and `timezone`; day is true where a date is wanted
// and the time of day may be missing. It is nil where both are empty. A problem's
// path is the one of the two that cannot work.
func newClock(format, zone string, day bool) (*clock, *Problem) {
	if format == "" && zone == "" {
		return nil, nil
	}
	c := &clock{format: format, day: day}
	if zone != "" {
		location, err := time.LoadLocation(zone)
		if err != nil || zone == "Local" { // Local would make a value depend on the machine
			return nil, &Problem{"timezone", "\"" + zone + "\" is not a time zone", hintZone}
		}
		c.zone = location
	}
	if c.unit = epochUnits[format]; c.unit != 0 || format == "" {
		return c, nil
	}
	var problem *Problem
	if c.layout, problem = layoutOf(format); problem != nil {
		return nil, problem
	}
	c.zoned = strings.Contains(c.layout, "Z07") || strings.Contains(c.layout, "-07")
	return c, c.checkLayout()
}

const hintZone = "write an IANA name such as Europe/Paris or UTC"

// hintFormat shows the three ways to write a format.
const hintFormat = "write %d.%m.%Y %H:%M:%S, or 02.01.2006 15:04:05 as Go does, or a count such as epochMillis"

// layoutOf is a format as Go writes it: `%` stands for strftime's, anything
// else is Go's own.
func layoutOf(format string) (string, *Problem) {
	if !strings.Contains(format, "%") {
		return format, nil
	}
	layout, err := strftime.Layout(format)
	if err != nil {
		return "", &Problem{"format", "\"" + format + "\": " + strings.TrimPrefix(err.Error(), "strftime: "), hintFormat}
	}
	// strftime's %z is an offset; who writes offsets writes Z for none of it too.
	return strings.NewReplacer("-0700", "Z0700", "-07:00", "Z07:00").Replace(layout), nil
}

// checkLayout refuses a layout that does not say the day, or the hour where a
// timestamp is wanted: it writes a moment, reads it back and looks what is left.
func (c *clock) checkLayout() *Problem {
	// Abbreviations are ambiguous, and an unknown one would be read as UTC.
	if strings.Contains(c.layout, "MST") {
		return &Problem{"format", "\"" + c.format + "\" reads the name of a time zone, which many zones share", "write %z for an offset, or timezone for a fixed zone"}
	}
	moment := time.Date(2017, time.December, 28, 19, 48, 57, 0, time.UTC)
	back, ok := parseIn(c.layout, moment.Format(c.layout))
	switch {
	case !ok || back.Format(time.DateOnly) != moment.Format(time.DateOnly):
		return &Problem{"format", "\"" + c.format + "\" does not say year, month and day", c.hint()}
	case !c.day && back.Hour() != moment.Hour():
		return &Problem{"format", "\"" + c.format + "\" does not say the hour", c.hint()}
	}
	return nil
}

// hint guesses what was meant by a format that is not one.
func (c *clock) hint() string {
	if strings.HasPrefix(c.format, "epoch") {
		return suggest(c.format, slices.Sorted(maps.Keys(epochUnits))...)
	}
	// The way of Java's formatters, which the interface's document uses too.
	meant := strings.NewReplacer(
		"yyyy", "%Y", "yy", "%y", "MM", "%m", "dd", "%d", "HH", "%H", "mm", "%M", "ss", "%S", "XXX", "%z", "'T'", "T",
	).Replace(c.format)
	if meant != c.format {
		return "did you mean \"" + meant + "\"?"
	}
	return hintFormat
}
