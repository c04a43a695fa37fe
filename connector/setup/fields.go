package setup

import (
	"cmp"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/feedsink/feedsink/schemas"
)

// field is a scalar, or a list of them, that the rows have at one place.
type field struct {
	path   string   // as `from` writes it
	to     string   // guessed name in the table
	as     string   // guessed format; "": as it comes
	source string   // further keys that say how the source writes it
	trues  []string // of a boolean in texts: those that stand for true

	names    []string // of the members that lead to it
	name     string   // the last of them, in lower case
	inList   bool     // its path goes through a list of objects
	header   bool     // it is a header
	segments []tag    // a list's words that are segmentations
	seen     int      // rows that have it, null not counted
	values   []schemas.Value
	at       []schemas.Kind // by row, Absent where it is not named
}

// deepest is how many objects a path may lead through.
const deepest = 4

// fieldsOf finds the places of all scalars, in the order of their appearance.
// stem is what the records are of, as far as it is known, and so no part of targets.
// Those inside of lists of objects are on offer: which of the elements is meant,
// the records cannot tell.
func fieldsOf(rows []Record, stem string) (fields, offers []*field) {
	var all []*field
	byPath := map[string]*field{}
	objects := map[string]bool{} // paths that lead to one in some row
	row := 0
	var walk func(prefix string, names []string, v schemas.Value, inList bool)
	walk = func(prefix string, names []string, v schemas.Value, inList bool) {
		for _, m := range v.Items() {
			path, ok := joined(prefix, m.Name)
			names := append(slices.Clone(names), m.Name)
			switch kind := m.Value.Kind(); {
			case !ok:
				continue
			case kind == schemas.Object:
				if objects[path] = true; len(names) < deepest {
					walk(path, names, m.Value, inList)
				}
				continue
			case kind == schemas.List && !scalars(m.Value):
				for _, element := range m.Value.Items() {
					if element.Value.Kind() == schemas.Object && len(names) < deepest && !inList {
						walk(path+"[*]", names, element.Value, true)
					}
				}
				continue
			case kind == schemas.List && inList:
				continue
			}
			f := byPath[path]
			if f == nil {
				f = &field{path: path, to: target(names, stem), names: names, name: strings.Join(wordsOf(m.Name), "_"), inList: inList, at: make([]schemas.Kind, len(rows))}
				byPath[path] = f
				all = append(all, f)
			}
			f.at[row] = m.Value.Kind()
			if m.Value.Kind() != schemas.Null {
				f.seen++
				f.values = append(f.values, m.Value)
			}
		}
	}
	for i, r := range rows {
		if row = i; r.Value.Kind() == schemas.Object {
			walk("", nil, r.Value, false)
		}
	}
	return guessedOf(withoutNullObjects(all, objects))
}

// guessedOf guesses what the fields are, and sets those apart that are on offer.
func guessedOf(all []*field) (fields, offers []*field) {
	taken := map[string]bool{}
	for _, f := range all {
		if slices.ContainsFunc(all, func(other *field) bool { return strings.HasPrefix(other.path, f.path+"[*]") }) {
			continue // a list of objects that is empty here and there
		}
		f.guess()
		for taken[f.to] {
			f.to += "2"
		}
		taken[f.to] = true
		if f.inList {
			offers = append(offers, f)
		} else {
			fields = append(fields, f)
		}
	}
	return fields, offers
}

// withoutNullObjects leaves out what is null in some rows and an object in others: a field
// of its own would refuse the objects. Where it is null, what the object holds counts as null.
func withoutNullObjects(all []*field, objects map[string]bool) (kept []*field) {
	for _, f := range all {
		if f.seen > 0 || !objects[f.path] {
			kept = append(kept, f)
			continue
		}
		for _, inner := range all {
			if len(inner.names) <= len(f.names) || !slices.Equal(inner.names[:len(f.names)], f.names) {
				continue
			}
			for row, kind := range f.at {
				if kind == schemas.Null && inner.at[row] == schemas.Absent {
					inner.at[row] = schemas.Null
				}
			}
		}
	}
	return kept
}

// placesOf are the places of a value's scalars and lists.
func placesOf(v schemas.Value) map[string]bool {
	places := map[string]bool{}
	var walk func(prefix string, v schemas.Value, depth int)
	walk = func(prefix string, v schemas.Value, depth int) {
		for _, m := range v.Items() {
			switch path, ok := joined(prefix, m.Name); {
			case !ok || depth == deepest:
			case m.Value.Kind() == schemas.Object:
				walk(path, m.Value, depth+1)
			default:
				places[path] = true
			}
		}
	}
	if v.Kind() == schemas.Object {
		walk("", v, 0)
	}
	return places
}

func scalars(list schemas.Value) bool {
	return !slices.ContainsFunc(list.Items(), func(e schemas.Field) bool {
		return e.Value.Kind() == schemas.Object || e.Value.Kind() == schemas.List
	})
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reserved first names mean the record's own, unless they are quoted.
	reserved = []string{"headers", "topic", "partition", "offset", "timestamp", "kafkaKey"}
)

// joined is the path of a member; ok is false for a name that no path can say,
// one with both kinds of quotes or none at all.
func joined(prefix, name string) (path string, ok bool) {
	switch {
	case plainName.MatchString(name) && prefix == "" && !slices.Contains(reserved, name):
		return name, true
	case plainName.MatchString(name) && prefix != "":
		return prefix + "." + name, true
	}
	quote := `"`
	if strings.Contains(name, quote) {
		quote = "'"
	}
	return prefix + "[" + quote + name + quote + "]", name != "" && !strings.Contains(name, quote)
}

// wrappers are members that merely hold the others.
var wrappers = []string{"data", "payload", "body", "content"}

// target is the technical name of what such members lead to: neither data.total nor, of
// orders, order.total is more than total.
func target(names []string, stem string) string {
	for len(names) > 1 {
		first, next := bare(names[0]), bare(names[1])
		ofStem := stem != "" && singular(first) == singular(stem) && !slices.Contains(numberWords, next) // order.id is orderId
		if !ofStem && !slices.Contains(wrappers, first) && !strings.HasPrefix(next, first) {
			break
		}
		names = names[1:]
	}
	return camel(names)
}

// camel is a technical name: contact.e_mail becomes contactEMail.
func camel(names []string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(strings.Join(names, "."), func(c rune) bool {
		return c >= unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c)
	}) {
		if b.Len() > 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		} else {
			word = strings.ToLower(word[:1]) + word[1:]
		}
		b.WriteString(word)
	}
	return cmp.Or(b.String(), "field")
}

// guess finds the narrowest format that all values have.
func (f *field) guess() {
	if len(f.values) == 0 {
		return
	}
	if f.all(func(v schemas.Value) bool { return v.Kind() == schemas.List }) {
		f.as = "list"
		return
	}
	for _, g := range guesses {
		if f.all(func(v schemas.Value) bool { return g.fits(v, f.name) }) {
			f.as, f.source = g.as, g.source
			return
		}
	}
	f.guessWriting()
}

func (f *field) all(is func(schemas.Value) bool) bool {
	return len(f.values) > 0 && !slices.ContainsFunc(f.values, func(v schemas.Value) bool { return !is(v) })
}

var (
	phone = regexp.MustCompile(`^(\+|00)[0-9 ()./-]{6,}$`)
	iso   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?$`)
	code  = regexp.MustCompile(`^[A-Za-z]{2}$`)
	comma = regexp.MustCompile(`^-?(0|[1-9]\d*)(,\d+)?$`)
	point = regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?$`)
	named = func(name string, parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
	}
)

// guesses are tried in turn. A text's name decides only where its form alone
// would say too little.
var guesses = []struct {
	as, source string
	fits       func(v schemas.Value, name string) bool
}{
	{"boolean", "", func(v schemas.Value, _ string) bool { return v.Kind() == schemas.Bool }},
	{"timestamp", "format: epochMillis", func(v schemas.Value, name string) bool { return epoch(v, name, time.UnixMilli) }},
	{"timestamp", "format: epochSeconds", func(v schemas.Value, name string) bool { return epoch(v, name, unixSeconds) }},
	{"integer", "", func(v schemas.Value, _ string) bool {
		_, err := strconv.ParseInt(v.Text(), 10, 32)
		return v.Kind() == schemas.Number && err == nil
	}},
	{"number", "", func(v schemas.Value, _ string) bool { return v.Kind() == schemas.Number }},
	{"date", "", func(v schemas.Value, _ string) bool {
		_, err := time.Parse(time.DateOnly, v.Text())
		return v.Kind() == schemas.String && err == nil
	}},
	{"timestamp", "", func(v schemas.Value, _ string) bool { return v.Kind() == schemas.String && iso.MatchString(v.Text()) }},
	{"timestamp", "format: '%Y-%m-%d %H:%M:%S'", written(time.DateTime)},
	{"date", "format: '%d.%m.%Y'", written("02.01.2006")},
	{"timestamp", "format: '%d.%m.%Y %H:%M'", written("02.01.2006 15:04")},
	{"email", "", func(v schemas.Value, _ string) bool {
		a, err := mail.ParseAddress(v.Text())
		return v.Kind() == schemas.String && err == nil && a.Address == v.Text()
	}},
	{"phone", "", func(v schemas.Value, name string) bool {
		return v.Kind() == schemas.String && named(name, "phone", "mobile", "tel") && phone.MatchString(v.Text())
	}},
	{"country", "", func(v schemas.Value, name string) bool {
		return v.Kind() == schemas.String && named(name, "country") && code.MatchString(v.Text())
	}},
	{"sex", "", func(v schemas.Value, name string) bool {
		return named(name, "sex", "gender") && (v.Text() == "M" || v.Text() == "F")
	}},
	{"title", "", func(v schemas.Value, name string) bool {
		return named(name, "title", "salutation") && slices.Contains([]string{"Mr", "Mrs", "Ms"}, v.Text())
	}},
	{"language", "", func(v schemas.Value, name string) bool {
		return v.Kind() == schemas.String && named(name, "lang", "locale") && code.MatchString(v.Text())
	}},
}

// written takes texts of a layout that nothing else is written in.
func written(layout string) func(schemas.Value, string) bool {
	return func(v schemas.Value, _ string) bool {
		_, err := time.Parse(layout, v.Text())
		return v.Kind() == schemas.String && err == nil && len(v.Text()) == len(layout)
	}
}

// timeWords say of a count that it is a time.
var timeWords = []string{
	"at", "on", "since", "until", "when", "seen", "valid", "begin", "begins", "began", "end", "ends", "ended", "start", "starts", "started",
	"arrive", "arrives", "arrived", "arrival", "depart", "departs", "departed", "departure", "expires", "expiry", "expired",
}

// epoch takes counts for times where their name speaks of time and they lie
// in this century's first half.
func epoch(v schemas.Value, name string, at func(int64) time.Time) bool {
	return v.Kind() == schemas.Number && (anyOf(strings.Split(name, "_"), timeWords) || named(name, "time", "date", "ts", "created", "updated")) && inThisTime(v.Text(), at)
}

// inThisTime holds for counts in this century's first half.
func inThisTime(count string, at func(int64) time.Time) bool {
	n, err := strconv.ParseInt(count, 10, 64)
	year := at(n).Year()
	return err == nil && year >= 2000 && year < 2050
}

func unixSeconds(n int64) time.Time { return time.Unix(n, 0) }

// nulls is how many of the rows name the field with null.
func (f *field) nulls() (n int) {
	for _, kind := range f.at {
		if kind == schemas.Null {
			n++
		}
	}
	return n
}

// add takes the text of another row, "" for none.
func (f *field) add(text string) {
	kind := schemas.Absent
	if text != "" {
		kind = schemas.String
		f.seen++
		f.values = append(f.values, schemas.StringValue(text))
	}
	f.at = append(f.at, kind)
}
