package operators

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/feedsink/feedsink/router/values"
)

// layouts are those that date tries where none is named.
var layouts = []string{time.DateOnly, time.TimeOnly, time.DateTime, time.RFC3339, time.RFC822, time.RFC850, time.RFC1123}

// date reads a text in a layout, which may be missing, and in a zone where the text says none:
// UTC unless it is named. The library's lets the machine's own zone decide what CET means,
// and by which rules a time with an offset goes on.
func date(v ...any) (any, error) {
	texts := make([]string, len(v))
	for i := range v {
		text, ok := v[i].(string)
		if !ok {
			return nil, errors.New("date: no text")
		}
		texts[i] = text
	}
	in, tried := time.UTC, layouts
	if len(texts) > 1 {
		tried = texts[1:2]
	}
	if len(texts) > 2 {
		zone, err := Zone(texts[2])
		if err != nil {
			return nil, err
		}
		in = zone
	}
	for _, layout := range tried {
		if t, err := time.ParseInLocation(layout, texts[0], in); err == nil && isKnown(t, in) {
			return t, nil
		}
	}
	return nil, fmt.Errorf("date: %q cannot be read", texts[0])
}

// isKnown reports whether a time's zone is known, which is in where the text says none. Of an
// abbreviation that in does not have only the name is known, and its offset taken for 0: that is
// right for GMT, alone or with hours behind it.
func isKnown(t time.Time, in *time.Location) bool {
	name := t.Location().String()
	return slices.Contains([]string{"", "UTC", in.String()}, name) || strings.HasPrefix(name, "GMT")
}

// zones are those that were asked for, by name: to load one reads a file.
var zones sync.Map

// Zone is the time zone of an IANA name.
func Zone(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil
	}
	zone, err := values.LoadZone(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}
