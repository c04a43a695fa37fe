package setup

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// kind is the records of which one place says the same.
type kind struct {
	word   string
	verb   string   // the last of its words, if it says what happened
	stem   []string // the others: what it happened to
	rows   []int    // which of the records
	places map[string]bool
}

// division is a place that says of each record what kind of event it is.
type division struct {
	expression string
	path       string // of the value; "" for a header
	kinds      []kind // in the order of their appearance
}

// mostKinds that are taken for kinds.
const mostKinds = 20

var (
	// kindNames are names of places that say the kind of an event, without what joins
	// their words.
	kindNames = []string{
		"type", "cetype", "eventtype", "event", "eventname", "eventkind", "kind", "messagetype", "msgtype", "recordtype", "objecttype",
		"entity", "entitytype", "op", "operation", "optype", "operationtype", "action", "changetype", "change",
	}
	kindWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._:/ -]{0,79}$`)
	version  = regexp.MustCompile(`^v?[0-9]+$`)

	createVerbs = []string{
		"c", "i", "r", "create", "created", "creation", "insert", "inserted", "add", "added", "new", "registered", "registration", "signup", "signedup",
		"placed", "opened", "read", "snapshot",
	}
	updateVerbs = []string{
		"u", "update", "updated", "modify", "modified", "change", "changed", "edit", "edited", "upsert", "upserted", "replace", "replaced", "merge", "merged",
	}
	patchVerbs  = []string{"patch", "patched"}
	deleteVerbs = []string{"d", "delete", "deleted", "deletion", "remove", "removed", "removal", "erase", "erased"}
	// endVerbs may say that the row goes, or that it stays with another state.
	endVerbs = []string{
		"cancelled", "canceled", "cancellation", "cancel", "closed", "closure", "terminated", "termination", "expired", "withdrawn", "deactivated", "archived", "ended",
	}
	otherVerbs = []string{"paid", "sent", "won", "lost"}
	opVerbs    = slices.Concat(createVerbs, updateVerbs, patchVerbs, deleteVerbs, endVerbs)
)

// newKind takes a word apart: com.example.OrderCreated.v1 is created of com, example, order.
func newKind(word string) kind {
	words := wordsOf(word)
	for len(words) > 1 && version.MatchString(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	k := kind{word: word, stem: words, places: map[string]bool{}}
	last := words[len(words)-1]
	if slices.Contains(opVerbs, last) && (len(last) > 1 || len(words) == 1) || len(words) > 1 && (strings.HasSuffix(last, "ed") || slices.Contains(otherVerbs, last)) {
		k.verb, k.stem = last, words[:len(words)-1]
	}
	return k
}

// divisions are the places by which records can be told apart: each record has one,
// its name speaks of a kind, and there are few words.
func divisions(records []Record) (all []division) {
	if len(records) == 0 {
		return nil
	}
	try := func(expression, path string, at func(r Record) string) {
		d := division{expression: expression, path: path}
		for row, r := range records {
			word := at(r)
			i := slices.IndexFunc(d.kinds, func(k kind) bool { return k.word == word })
			if i < 0 {
				if !kindWord.MatchString(word) || len(d.kinds) == mostKinds {
					return
				}
				i, d.kinds = len(d.kinds), append(d.kinds, newKind(word))
			}
			k := &d.kinds[i]
			k.rows = append(k.rows, row)
			maps.Copy(k.places, placesOf(r.Value))
		}
		all = append(all, d)
	}
	first := records[0]
	for _, name := range slices.Sorted(maps.Keys(first.Headers)) {
		if slices.Contains(kindNames, bare(name)) {
			try(inExpression("headers", name), "", func(r Record) string { return r.Headers[name] })
		}
	}
	var walk func(path string, names []string, v schemas.Value)
	walk = func(path string, names []string, v schemas.Value) {
		for _, m := range v.Items() {
			path, ok := joined(path, m.Name)
			names := append(slices.Clone(names), m.Name)
			switch {
			case !ok:
			case m.Value.Kind() == schemas.Object && len(names) == 1:
				walk(path, names, m.Value)
			case m.Value.Kind() == schemas.String && slices.Contains(kindNames, bare(m.Name)):
				try(inExpression("value", names...), path, func(r Record) string { return textAt(r.Value, names) })
			}
		}
	}
	if first.Value.Kind() == schemas.Object {
		walk("", nil, first.Value)
	}
	return all
}

// textAt is the text at a place, "" where there is none.
func textAt(v schemas.Value, names []string) string {
	for _, name := range names {
		if v.Kind() != schemas.Object {
			return ""
		}
		v = v.Get(name)
	}
	if v.Kind() != schemas.String {
		return ""
	}
	return v.Text()
}

// ofOps reports whether all words are ops and say of nothing else what they are done to.
func (d *division) ofOps() bool {
	return len(d.kinds) > 1 && !slices.ContainsFunc(d.kinds, func(k kind) bool { return len(k.stem) > 0 })
}

// saysWhatHappened reports whether some of the words are of events, and not of classes of rows.
func (d *division) saysWhatHappened() bool {
	return slices.ContainsFunc(d.kinds, func(k kind) bool { return k.verb != "" })
}

// tables divides the records: kinds that are of one table stand together.
func (d *division) tables() (groups [][]kind) {
	for _, k := range d.kinds {
		i := slices.IndexFunc(groups, func(g []kind) bool { return slices.ContainsFunc(g, func(o kind) bool { return sameTable(o, k) }) })
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], k)
	}
	return groups
}

// sameTable holds for kinds of which the words before the verb are the same, or that
// name mostly the same.
func sameTable(a, b kind) bool {
	if slices.Equal(a.stem, b.stem) {
		return true
	}
	if a.verb != "" && b.verb != "" && len(a.stem) > 0 && len(b.stem) > 0 && a.stem[len(a.stem)-1] != b.stem[len(b.stem)-1] {
		return false // order.created and invoice.created
	}
	both, either := 0, len(a.places)
	for place := range b.places {
		if a.places[place] {
			both++
		} else {
			either++
		}
	}
	return both*5 >= either*4
}

// shares says how many of all the records each kind has.
func shares(kinds []kind, all int) string {
	return listed(kinds, func(k kind) string { return k.word + " " + percent(len(k.rows), all) })
}

// percent of all; some is never none, and not all is never 100 %.
func percent(some, all int) string {
	p := (200*some + all) / (2 * all)
	switch {
	case some > 0 && p == 0:
		return "under 1 %"
	case some < all && p == 100:
		return "over 99 %"
	}
	return fmt.Sprintf("%d %%", p)
}
