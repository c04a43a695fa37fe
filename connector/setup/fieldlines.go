package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

func (w *writer) fieldLines(t *table) {
	w.line("    fields:                                 # source → target; DECIDE: the targets are the table's technical names")
	if slices.ContainsFunc(t.fields, func(f *field) bool { return f.seen > 0 && f.seen < len(t.records) }) {
		w.line("      # With a share are those that not all of the %d records have.", len(t.records))
	}
	for _, f := range t.fields {
		w.fieldLine(t, f)
	}
	w.offerLines(t)
}

func (w *writer) fieldLine(t *table, f *field) {
	line := fmt.Sprintf("{from: %s, to: %s", quoted(f.path), quoted(f.to))
	if len(f.segments) > 0 {
		w.line("      # DECIDE: the tags of %s are segmentations, or %s, as: list} if the table has such an attribute.", quoted(f.path), line)
		for _, s := range f.segments {
			w.line("      - {expr: %s, to: %s}", quoted(f.tagExpression(s.word)), quoted(s.to))
		}
		return
	}
	var notes []string
	switch {
	case t.unmapped(f):
		w.line("      # - %s}   # %s", line, t.reason(f))
		return
	case f == t.key && !t.custom && f.numbers():
		line += ", as: string" // a unique key is text
	case f == t.key: // text, whatever it looks like; the key of a custom table is made text
	case f.as != "":
		line += ", as: " + f.as
	}
	if f.source != "" && f != t.key {
		line += ", " + f.source
	}
	switch {
	case f.seen == 0:
		notes = append(notes, "always null in the sample")
	case f.seen < len(t.records):
		notes = append(notes, percent(f.seen, len(t.records)))
	}
	if null := f.nulls(); null > 0 && f.seen > 0 && f != t.key && (strings.HasPrefix(f.to, subscriptionsAt) || strings.HasPrefix(f.to, segmentsAt)) {
		line += ", null: omit"
		notes = append(notes, fmt.Sprintf("%s null, which is left out, for it cannot be null", percent(null, len(t.records))))
	}
	switch {
	case strings.HasPrefix(f.to, subscriptionsAt):
		notes = append(notes, "DECIDE: a subscription, or an attribute of this name")
	case strings.HasPrefix(f.to, segmentsAt):
		notes = append(notes, "DECIDE: a segmentation, whose value is the name of a segment, or an attribute")
	case f.as == "number" && f.source == "" && f != t.key && f.areAll(schemas.String):
		notes = append(notes, "DECIDE: these are texts; without as they stay texts, as versions such as 1.10 must")
	}
	note := ""
	if len(notes) > 0 {
		note = "   # " + strings.Join(notes, "; ")
	}
	w.line("      - %s}%s", line, note)
	if entry, when := f.otherwise(); entry != "" && f != t.key {
		w.line("      # - %s   # DECIDE: instead of %s", entry, when)
	}
}

// unmapped holds for what is no field of the table.
func (t *table) unmapped(f *field) bool { return t.reason(f) != "" }

// reason says why the table has no such field, "" if it has.
func (t *table) reason(f *field) string {
	last := f.last()
	switch {
	case f == t.key:
		return ""
	case slices.Contains(t.said, f.path):
		return "says the kind of event"
	case keyLike(last) == 0 && anyOf(wordsOf(last), keyWords):
		return "names the event, not the row"
	case t.onlyDeleted(f):
		return "only deletes have it"
	case t.custom && f.as == "list":
		return "a list: a property of a custom table cannot be one"
	case t.computed(f.to):
		return computedNote
	}
	return ""
}

const computedNote = "computed by the service; only a mapping with op: create and imports.create may fill it"

// computed reports whether the table has an attribute of that name that the service computes.
func (t *table) computed(name string) bool {
	place, err := values.ParsePlace(schemas.Table{Custom: t.custom}, name)
	target := values.NewTarget(place, nil)
	return err == nil && target.Computed()
}

// offerLines are what a person may choose from lists of objects.
func (w *writer) offerLines(t *table) {
	for _, f := range t.offers {
		if t.computed(f.to) {
			w.line("      # - {from: %s, to: %s}   # %s", quoted(f.path), quoted(f.to), computedNote)
			continue
		}
		if t.custom {
			first := strings.Replace(f.path, "[*]", "[0]", 1)
			w.line("      # - {from: %s, to: %s}   # DECIDE: in a list of objects; [0] is its first, and a property cannot be a list", quoted(first), quoted(f.to))
			continue
		}
		of := ""
		if f.as != "" {
			of = ", of: " + f.as
		}
		if f.source != "" {
			of += ", " + f.source
		}
		w.line("      # - {from: %s, to: %s, as: list%s}   # DECIDE: in a list of objects; [*] is all of them, [0] the first", quoted(f.path), quoted(f.to), of)
	}
}
