package setup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Place is what is known besides the records.
type Place struct {
	Brokers      []string
	Topic        string
	Registry     string // "": none
	ProfileTable string // at most one of the two; neither: a guess
	CustomTable  string
}

// ErrNothing says that the sample has no record to guess from.
var ErrNothing = errors.New("no record has a value that could be read; there is nothing to guess from")

// Write is a commented configuration for the topic. The error is ErrNothing.
func (s *Sample) Write(at Place) (string, error) {
	if s.Records() == 0 {
		return "", ErrNothing
	}
	shape := s.shape()
	w := &writer{Sample: s, place: at, shape: shape}
	if shape == Plain || shape == Debezium {
		rows := s.rows(shape)
		w.fields = fieldsOf(rows)
		keys := s.keys
		if len(rows) != len(keys) {
			keys = nil
		}
		if w.key, w.why = keyOf(w.fields, keys, len(rows)); w.key == nil {
			return "", ErrNothing
		}
	}
	w.table()
	w.head()
	w.mapping()
	return w.b.String(), nil
}

type writer struct {
	*Sample
	place  Place
	shape  Shape
	fields []*field
	key    *field
	why    string
	custom bool
	name   string // of mapping and table
	b      strings.Builder
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// table guesses its kind: people have addresses.
func (w *writer) table() {
	switch {
	case w.place.ProfileTable+w.place.CustomTable != "":
		w.custom = w.place.CustomTable != ""
	case w.shape == ProfileEvents || w.shape == RecordEvents:
		w.custom = w.shape == RecordEvents
	default:
		w.custom = !slices.ContainsFunc(w.fields, func(f *field) bool { return f.as == "email" })
	}
	last := w.place.Topic[strings.LastIndexAny(w.place.Topic, ".")+1:]
	w.name = cmp.Or(w.place.ProfileTable, w.place.CustomTable, last, w.place.Topic)
}

var shapes = map[Shape]string{
	Plain: "records that know nothing of feedsink", ProfileEvents: "canonical profile events",
	RecordEvents: "canonical record events", Debezium: "Debezium's change events",
}

func (w *writer) head() {
	w.line("# Written by feedsink init from %d records of the topic %s: %s.", w.Records(), w.place.Topic, shapes[w.shape])
	w.line("# Types, key and table are guesses: go through the lines with DECIDE. Then")
	w.line("#   feedsink check -c FILE --online   whether it can work")
	w.line("#   feedsink plan -c FILE --show      what would go out")
	w.line("#   feedsink run -c FILE")
	brokers := make([]string, len(w.place.Brokers))
	for i, b := range w.place.Brokers {
		brokers[i] = strconv.Quote(b)
	}
	w.line("kafka:\n  brokers: [%s]\n  group: feedsink   # the lanes' groups are feedsink-immediate and feedsink-batch", strings.Join(brokers, ", "))
	if w.place.Registry != "" {
		w.line("schemaRegistry: {url: %s}", strconv.Quote(w.place.Registry))
	}
	w.line("service:                                   # DECIDE: addresses and entity are in your contract")
	w.line("  baseURL: ${FEEDSINK_BASE_URL:-http://localhost:8090}")
	w.line("  authURL: ${FEEDSINK_AUTH_URL:-http://localhost:8090}")
	w.line("  entity: ${FEEDSINK_ENTITY:-acme}")
	w.line("  apiKeyFile: ${FEEDSINK_SECRETS:-/run/secrets}/api-key   # a file, read again when it changes")
	w.line("dlq: {topic: feedsink.dlq}                 # must exist; without one, a bad record halts its partition")
	w.line("spool: {dir: \"${FEEDSINK_SPOOL:-/var/lib/feedsink}\", maxBytes: 20GiB}")
}

func (w *writer) mapping() {
	w.line("mappings:\n  - name: %s\n    topics: [%s]", mappingName(w.name), strconv.Quote(w.place.Topic))
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
	w.line("    %s: %s   # DECIDE: the table's name; profileTable or customTable", kind, strconv.Quote(w.name))
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
		w.line("    key: %s   # DECIDE: must be a unique key of the table", w.key.to)
	default:
		w.line("    key: %s   # DECIDE: must be a unique key of the table", w.eventKey())
	}
	if w.key != nil {
		w.line("    # %s is the key, because %s.", w.key.path, w.why)
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
		to := quoted(f.to)
		switch {
		case w.custom && f == w.key:
			to = "businessKey"
		case w.custom && to == "businessKey":
			to += "2"
		}
		text := fmt.Sprintf("{from: %s, to: %s", quoted(f.path), to)
		switch {
		case f == w.key: // text or a whole number, whatever it looks like
		case w.custom && f.as == "list":
			w.line("      # - %s}   # a list: a property of a custom table cannot be one", text)
			continue
		case f.as != "":
			text += ", as: " + f.as
		}
		if f.format != "" && f != w.key {
			text += ", format: " + f.format
		}
		note := ""
		switch {
		case f.seen == 0:
			note = "   # always null in the sample"
		case !w.custom && f.as == "boolean" && named(f.name, "newsletter", "subscri", "optin", "opt_in", "consent"):
			note = fmt.Sprintf("   # DECIDE: a subscription would be \"subscriptions#%s\"", f.to)
		}
		w.line("      - %s}%s", text, note)
	}
}

// columns are what a file would have.
func (w *writer) columns() []string {
	key := "businessKey"
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
				add(quoted(prefix + m.Name))
			}
		}
	}
	slices.Sort(columns[1:])
	return columns
}

// yamlWords are no text for YAML unless they are quoted.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// quoted is a text as YAML takes it inside of braces.
func quoted(text string) string {
	if plainName.MatchString(strings.ReplaceAll(text, ".", "_")) && !slices.Contains(yamlWords, strings.ToLower(text)) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
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
