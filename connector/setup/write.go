package setup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// ErrNothing says that the sample has no record to guess from.
var ErrNothing = errors.New("no record has a value with a field that could be the key; there is nothing to guess from")

// Write is a commented configuration for the topic. The error is ErrNothing.
func (s *Sample) Write(at Place) (string, error) {
	if s.Records() == 0 {
		return "", ErrNothing
	}
	shape := s.shape()
	w := &writer{Sample: s, place: at, shape: shape}
	if shape == Plain || shape == Debezium {
		rows := s.rows(shape)
		w.fields, w.offers = fieldsOf(rows)
		keys := s.keys
		if len(rows) != len(keys) {
			keys = nil
		}
		if w.key, w.why = keyOf(w.fields, keys, len(rows)); w.key == nil {
			return "", ErrNothing
		}
	}
	w.table()
	if w.custom && w.key != nil {
		w.rename()
	}
	w.head()
	w.mapping()
	return w.b.String(), nil
}

type writer struct {
	*Sample
	place  Place
	shape  Shape
	fields []*field
	offers []*field // inside of lists of objects: for a person to choose
	key    *field
	why    string
	custom bool
	name   string // of mapping and table
	b      strings.Builder
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// rename lets the key, and nothing else, be the records' businessKey.
func (w *writer) rename() {
	for _, f := range w.fields {
		if f.to == businessKey {
			f.to += "2"
		}
	}
	w.key.to = businessKey
}

// businessKey is what names a record in every custom table.
const businessKey = "businessKey"

// table guesses its kind: people have addresses.
func (w *writer) table() {
	switch {
	case w.place.ProfileTable+w.place.CustomTable != "":
		w.custom = w.place.CustomTable != ""
	case w.shape == ProfileEvents || w.shape == RecordEvents:
		w.custom = w.shape == RecordEvents
	default:
		w.custom = !slices.ContainsFunc(slices.Concat(w.fields, w.offers), func(f *field) bool { return f.as == "email" })
	}
	last := w.place.Topic[strings.LastIndexAny(w.place.Topic, ".")+1:]
	w.name = cmp.Or(w.place.ProfileTable, w.place.CustomTable, last, w.place.Topic)
}

var shapes = map[Shape]string{
	Plain: "records that know nothing of feedsink", ProfileEvents: "canonical profile events",
	RecordEvents: "canonical record events", Debezium: "Debezium's change events",
}

func (w *writer) mapping() {
	w.line("mappings:\n  - name: %s\n    topics: [%s]", mappingName(w.name), text(w.place.Topic))
	if w.Format != "json" {
		w.line("    format: %s", w.Format)
	}
	if w.shape == Debezium {
		w.line("    envelope: debezium")
	}
	kind := "profileTable"
	if w.custom {
		kind = "customTable"
	}
	w.line("    # DECIDE: the table's name, and profileTable or customTable. The service cannot be asked which tables it has:")
	w.line("    # of a name that it does not know, all records become dead letters (not_found).")
	w.line("    %s: %s", kind, text(w.name))
	w.keyLines()
	if key := w.kafkaKey(); key != "text" {
		w.line("    kafkaKey: %s                          # how the key of a record without a value is read: it deletes the row", key)
	}
	if len(w.fields) > 0 {
		w.fieldLines()
	}
	w.line("    routes: [{lane: immediate}]             # DECIDE: what may wait for a file is cheaper by imports:")
	w.line("    # routes: [{lane: batch}]")
	w.line("    # imports:")
	w.line("    #   upsert: {mode: CREATE_OR_UPDATE}      # then: feedsink etl create -c FILE --mapping %s", mappingName(w.name))
	w.line("    #   delete: {mode: DELETE}")
	w.line("    #   columns: [%s]", strings.Join(w.columns(), ", "))
	if !w.custom && (w.Tombstones > 0 || w.shape == Debezium) {
		w.line("    # Deletes of profiles need an import of mode DELETE, or the service's profile id: without, they are dead letters.")
	}
}

func (w *writer) keyLines() {
	switch {
	case w.custom:
		w.line("    key: businessKey")
	case w.key != nil:
		w.line("    key: %s   # DECIDE: must be a unique key of the table", quoted(w.key.to))
	default:
		w.line("    key: %s   # DECIDE: must be a unique key of the table", quoted(w.eventKey()))
	}
	if w.key != nil {
		w.line("    # %s is the key, because %s.", quoted(w.key.path), w.why)
	}
}

// eventKey is the unique key that canonical profile events name.
func (w *writer) eventKey() string {
	for _, section := range []string{"key", "attributes"} {
		for _, v := range w.values {
			if members := v.Get(section).Items(); len(members) > 0 {
				return members[0].Name
			}
		}
	}
	return "customerNumber"
}

func (w *writer) fieldLines() {
	w.line("    fields:                                 # source → target; DECIDE: the targets are the table's technical names")
	for _, f := range w.fields {
		line := fmt.Sprintf("{from: %s, to: %s", quoted(f.path), quoted(f.to))
		switch {
		case f == w.key: // text or a whole number, whatever it looks like
		case w.custom && f.as == "list":
			w.line("      # - %s}   # a list: a property of a custom table cannot be one", line)
			continue
		case f.as != "":
			line += ", as: " + f.as
		}
		if f.format != "" && f != w.key {
			line += ", format: " + f.format
		}
		note := ""
		switch {
		case f.seen == 0:
			note = "   # always null in the sample"
		case !w.custom && f.as == "boolean" && named(f.name, "newsletter", "subscri", "optin", "opt_in", "consent"):
			note = fmt.Sprintf("   # DECIDE: a subscription would be \"subscriptions#%s\"", f.to)
		}
		w.line("      - %s}%s", line, note)
	}
	w.offerLines()
}

// offerLines are what a person may choose from lists of objects.
func (w *writer) offerLines() {
	for _, f := range w.offers {
		if w.custom {
			first := strings.Replace(f.path, "[*]", "[0]", 1)
			w.line("      # - {from: %s, to: %s}   # DECIDE: in a list of objects; [0] is its first, and a property cannot be a list", quoted(first), quoted(f.to))
			continue
		}
		of := ""
		if f.as != "" {
			of = ", of: " + f.as
		}
		w.line("      # - {from: %s, to: %s, as: list%s}   # DECIDE: in a list of objects; [*] is all of them, [0] the first", quoted(f.path), quoted(f.to), of)
	}
}

// columns are what a file would have.
func (w *writer) columns() []string {
	key := businessKey
	if !w.custom {
		key = w.eventKey()
		if w.key != nil {
			key = w.key.to
		}
	}
	columns := []string{key}
	add := func(name string) {
		if !slices.Contains(columns, name) {
			columns = append(columns, name)
		}
	}
	for _, f := range w.fields {
		if f != w.key && (!w.custom || f.as != "list") {
			add(f.to)
		}
	}
	for _, v := range w.values {
		for section, prefix := range map[string]string{"attributes": "", "properties": "", "subscriptions": "subscriptions#", "segments": "S_"} {
			if w.shape != ProfileEvents && w.shape != RecordEvents {
				break
			}
			for _, m := range v.Get(section).Items() {
				add(prefix + m.Name)
			}
		}
	}
	slices.Sort(columns[1:])
	for i, name := range columns {
		columns[i] = quoted(name)
	}
	return columns
}

// yamlWords are no text for YAML unless they are quoted.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// quoted is a text as YAML takes it inside of braces, and as the configuration
// takes it unchanged. Names come from records: they may hold anything.
func quoted(name string) string {
	switch {
	case plainName.MatchString(strings.ReplaceAll(name, ".", "_")) && !slices.Contains(yamlWords, strings.ToLower(name)):
		return name
	case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return text(name)
	}
	return "'" + strings.NewReplacer("'", "''", "${", "$${").Replace(name) + "'"
}

// mappingName is a name that mappings may have.
func mappingName(name string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", c) {
			return c
		}
		return '-'
	}, strings.ToLower(name))
}
