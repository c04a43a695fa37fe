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
	path   string // as `from` writes it
	to     string // guessed name in the table
	as     string // guessed format; "": as it comes
	format string // of moments

	name   string // its last part, in lower case
	inList bool   // its path goes through a list of objects
	seen   int    // rows that have it, null not counted
	values []schemas.Value
}

// deepest is how many objects a path may lead through.
const deepest = 4

// fieldsOf finds the places of all scalars, in the order of their appearance.
// Those inside of lists of objects are on offer: which of the elements is meant,
// the records cannot tell.
func fieldsOf(rows []schemas.Value) (fields, offers []*field) {
	var all []*field
	byPath := map[string]*field{}
	var walk func(prefix string, names []string, v schemas.Value, inList bool)
	walk = func(prefix string, names []string, v schemas.Value, inList bool) {
		for _, m := range v.Items() {
			path, ok := joined(prefix, m.Name)
			names := append(slices.Clone(names), m.Name)
			switch kind := m.Value.Kind(); {
			case !ok:
				continue
			case kind == schemas.Object:
				if len(names) < deepest {
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
				f = &field{path: path, to: camel(names), name: strings.ToLower(m.Name), inList: inList}
				byPath[path] = f
				all = append(all, f)
			}
			if m.Value.Kind() != schemas.Null {
				f.seen++
				f.values = append(f.values, m.Value)
			}
		}
	}
	for _, row := range rows {
		if row.Kind() == schemas.Object {
			walk("", nil, row, false)
		}
	}
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
			f.as, f.format = g.as, g.format
			return
		}
	}
}

func (f *field) all(is func(schemas.Value) bool) bool {
	return len(f.values) > 0 && !slices.ContainsFunc(f.values, func(v schemas.Value) bool { return !is(v) })
}

var (
	phone = regexp.MustCompile(`^(\+|00)[0-9 ()./-]{6,}$`)
	iso   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?$`)
	code  = regexp.MustCompile(`^[A-Za-z]{2}$`)
	named = func(name string, parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
	}
)

// guesses are tried in turn. A text's name decides only where its form alone
// would say too little.
var guesses = []struct {
	as, format string
	fits       func(v schemas.Value, name string) bool
}{
	{"boolean", "", func(v schemas.Value, _ string) bool { return v.Kind() == schemas.Bool }},
	{"timestamp", "epochMillis", func(v schemas.Value, name string) bool { return epoch(v, name, time.UnixMilli) }},
	{"timestamp", "epochSeconds", func(v schemas.Value, name string) bool {
		return epoch(v, name, func(n int64) time.Time { return time.Unix(n, 0) })
	}},
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
	{"timestamp", "'%Y-%m-%d %H:%M:%S'", written(time.DateTime)},
	{"date", "'%d.%m.%Y'", written("02.01.2006")},
	{"timestamp", "'%d.%m.%Y %H:%M'", written("02.01.2006 15:04")},
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

// epoch takes counts for moments where their name speaks of time and they lie
// in this century's first half.
func epoch(v schemas.Value, name string, at func(int64) time.Time) bool {
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	if v.Kind() != schemas.Number || err != nil || !named(name, "time", "date", "_at", "ts", "when", "created", "updated") {
		return false
	}
	year := at(n).Year()
	return year >= 2000 && year < 2050
}

// keyOf guesses the field that names a row: one whose text is the Kafka key of
// every record, else one that every row has and no two share.
func keyOf(fields []*field, keys []string, rows int) (key *field, why string) {
	for _, f := range fields {
		if f.seen == rows && rows == len(keys) && f.names(func(i int, text string) bool { return keys[i] == text }) {
			return f, "its value is the Kafka key of every record that was looked at"
		}
	}
	var best *field
	for _, f := range fields {
		seen := map[string]bool{}
		if f.seen == rows && rows > 1 && f.names(func(_ int, text string) bool {
			again := seen[text]
			seen[text] = true
			return !again && text != ""
		}) && (best == nil || named(f.name, "id", "key", "number", "code", "mail") && !named(best.name, "id", "key", "number", "code", "mail")) {
			best = f
		}
	}
	if best != nil {
		return best, "no two records that were looked at share its value"
	}
	for _, f := range fields {
		if f.seen > 0 && f.names(func(int, string) bool { return true }) {
			return f, "nothing tells which field is the key: this is merely the first"
		}
	}
	return nil, ""
}

// names reports whether each value could be a key and is as wanted.
func (f *field) names(is func(i int, text string) bool) bool {
	for i, v := range f.values {
		if v.Kind() != schemas.String && !v.IsWhole() || !is(i, v.Text()) {
			return false
		}
	}
	return len(f.values) > 0
}
