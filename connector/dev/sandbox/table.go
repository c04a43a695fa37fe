package sandbox

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A row's values stand under the names that columns of a file have:
// attributes and properties by their technical name, subscriptions and segments
// with their prefix, the consent's context with one of ours.
const (
	subscriptionPrefix = "subscriptions#"
	segmentPrefix      = "S_"
	consentPrefix      = "dataCollection."
	businessKey        = "businessKey"
)

// Row is a profile or a table record as it is stored.
type Row struct {
	ID  string `json:"id"`  // profile id, or the number of the record
	Key string `json:"key"` // value of the first unique key that the row has, or the business key

	// Values by column name: technical names, subscriptions#NAME, S_NAME and
	// dataCollection.NAME. A value is a string, bool, json.Number or a list.
	Values map[string]any `json:"values"`

	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Text is the named value as text, a list as its JSON, "" for no value. It
// says the same for a value that came in a call and one that came in a file.
func (r Row) Text(name string) string { return textOf(r.Values[name]) }

// table holds the rows of one table. Stored value maps are never changed, only
// replaced, so that they may be shared with the call log and with snapshots.
type table struct {
	conf  Table
	rules map[string]rule

	mu     sync.Mutex
	rows   map[string]*Row            // by id
	index  map[string]map[string]*Row // by unique key, then value
	lastID int64

	// Of a custom table whose link cascades: its rows by the value that ties them
	// to a profile. Of a profile table: the custom tables tied to it; they are
	// locked after it.
	linked  map[string]map[*Row]bool
	cascade []*table
}

func newTable(conf Table) *table {
	t := &table{conf: conf, rules: map[string]rule{}}
	for _, f := range conf.Fields {
		t.rules[f.Name] = rule{Field: f}
	}
	for _, name := range conf.Subscriptions {
		t.rules[subscriptionPrefix+name] = rule{Field: Field{Name: name, Type: Boolean}, section: "subscriptions"}
	}
	for _, s := range conf.Segments {
		r := rule{Field: Field{Name: s.Name, Type: Boolean}, section: "segments"}
		if len(s.Values) > 0 {
			r = rule{Field: Field{Name: s.Name}, section: "segments", options: s.Values}
		}
		t.rules[segmentPrefix+s.Name] = r
	}
	for _, key := range conf.Keys {
		if _, ok := t.rules[key]; !ok {
			t.rules[key] = rule{Field: Field{Name: key}}
		}
	}
	t.clear()
	return t
}

// clear empties the table. The caller holds the lock or owns the table.
func (t *table) clear() {
	t.rows = map[string]*Row{}
	t.index = map[string]map[string]*Row{}
	t.linked = map[string]map[*Row]bool{}
	for _, key := range t.conf.Keys {
		t.index[key] = map[string]*Row{}
	}
}

// rule finds what a value under a column name has to look like; ok is false
// when the table has no such field.
func (t *table) rule(column string) (r rule, ok bool) {
	if r, ok = t.rules[column]; ok {
		return r, true
	}
	if !t.conf.Custom {
		if r, ok = technical[column]; ok {
			return r, true
		}
	}
	return rule{free: true}, t.conf.Open
}

// technical reports whether a column is one of the recency attributes.
func (t *table) technical(column string) bool {
	_, listed := t.rules[column]
	_, is := technical[column]
	return is && !listed && !t.conf.Custom
}

// match looks up each unique key among values. It returns nil when no row has
// one of them, and a refusal when they belong to different rows or when there
// are none: a row that cannot be identified could never be matched again.
func (t *table) match(values map[string]any) (*Row, error) {
	var found *Row
	identified := false
	for _, key := range t.conf.Keys {
		text := textOf(values[key])
		if text == "" {
			continue
		}
		identified = true
		r := t.index[key][text]
		if r == nil {
			continue
		}
		if found != nil && r != found {
			return nil, refuse(http.StatusConflict, "unique keys match different profiles").as("KEYS_CONFLICT")
		}
		found = r
	}
	if !identified {
		return nil, refuse(http.StatusBadRequest, "no unique key: one of %s is needed", strings.Join(t.conf.Keys, ", ")).as("NO_KEY")
	}
	return found, nil
}

// insert adds a row, whose keys the caller has matched with none.
func (t *table) insert(values map[string]any, now time.Time) *Row {
	t.lastID++
	r := &Row{ID: strconv.FormatInt(t.lastID, 10), Created: now, Updated: now}
	if !t.conf.Custom {
		r.ID = "p" + r.ID
	}
	r.Values = withoutNull(values)
	r.Key = t.keyOf(values)
	if t.conf.Discard {
		return r
	}
	t.rows[r.ID] = r
	t.enter(r)
	return r
}

// replace gives a row other values; 409 when one of its new keys is another
// row's.
func (t *table) replace(r *Row, values map[string]any, now time.Time) error {
	other, err := t.match(values)
	if err != nil {
		return err
	}
	if other != nil && other != r {
		return refuse(http.StatusConflict, "a unique key belongs to another profile").as("KEY_TAKEN")
	}
	t.leave(r)
	r.Values = withoutNull(values)
	r.Key = t.keyOf(values)
	r.Updated = now
	t.enter(r)
	return nil
}

// remove deletes a row and, where links cascade, the records tied to it.
func (t *table) remove(r *Row) {
	for _, custom := range t.cascade {
		custom.removeLinked(textOf(r.Values[custom.conf.Link.Attribute]))
	}
	t.leave(r)
	delete(t.rows, r.ID)
}

// removeLinked deletes the records that hold a value in their link's property.
func (t *table) removeLinked(value string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.linked[value] {
		t.remove(r)
	}
}

// tie returns the value that ties a row to a profile, "" for none.
func (t *table) tie(r *Row) string {
	if !t.conf.Link.cascades() {
		return ""
	}
	return textOf(r.Values[t.conf.Link.Property])
}

func (t *table) enter(r *Row) {
	for _, key := range t.conf.Keys {
		if text := textOf(r.Values[key]); text != "" {
			t.index[key][text] = r
		}
	}
	if value := t.tie(r); value != "" {
		if t.linked[value] == nil {
			t.linked[value] = map[*Row]bool{}
		}
		t.linked[value][r] = true
	}
}

func (t *table) leave(r *Row) {
	for _, key := range t.conf.Keys {
		delete(t.index[key], textOf(r.Values[key]))
	}
	if value := t.tie(r); value != "" {
		if delete(t.linked[value], r); len(t.linked[value]) == 0 {
			delete(t.linked, value)
		}
	}
}

// keyOf is the first unique key that is set.
func (t *table) keyOf(values map[string]any) string {
	for _, key := range t.conf.Keys {
		if text := textOf(values[key]); text != "" {
			return text
		}
	}
	return ""
}

// merged is what a row holds after a partial update: what is not mentioned
// stays.
func merged(old, changes map[string]any) map[string]any {
	values := make(map[string]any, len(old)+len(changes))
	maps.Copy(values, old)
	maps.Copy(values, changes)
	return values
}

// withoutNull drops fields that hold nothing, copying only when there are any.
func withoutNull(values map[string]any) map[string]any {
	for _, v := range values {
		if v == nil {
			values = maps.Clone(values)
			maps.DeleteFunc(values, func(_ string, v any) bool { return v == nil })
			return values
		}
	}
	return values
}

// snapshot copies a row.
func (r *Row) snapshot() Row {
	c := *r
	c.Values = maps.Clone(r.Values)
	return c
}
