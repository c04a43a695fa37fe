package sandbox

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
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
	for _, key := range conf.Keys { // a field of this name says more of it
		t.rules[key] = rule{}
	}
	for _, f := range conf.Fields {
		t.rules[f.Name] = rule{Field: f}
	}
	for _, name := range conf.Subscriptions {
		t.rules[subscriptionPrefix+name] = rule{Field: Field{Type: Boolean}, section: "subscriptions"}
	}
	for _, s := range conf.Segments {
		r := rule{Field: Field{Type: Boolean}, section: "segments"}
		if len(s.Values) > 0 {
			r = rule{section: "segments", options: s.Values}
		}
		t.rules[segmentPrefix+s.Name] = r
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
	if t.technical(column) {
		return technical[column], true
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
	r.Values, r.Key = withoutNull(values), t.keyOf(values)
	if !t.conf.Discard {
		t.rows[r.ID] = r
		t.enter(r)
	}
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
	r.Values, r.Key, r.Updated = withoutNull(values), t.keyOf(values), now
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
	value := t.tie(r)
	if delete(t.linked[value], r); len(t.linked[value]) == 0 {
		delete(t.linked, value)
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

// values reads the body of operation 1, 2, 4 or 5 and checks it against its table.
func (s *Sandbox) values(r *http.Request, c *call, body interface {
	values(t *table) (map[string]any, error)
},
) (map[string]any, error) {
	if err := s.body(r, c, body); err != nil {
		return nil, err
	}
	values, err := body.values(c.table)
	c.Values = values
	return values, err
}

// onTable makes what applies a call to one row of its table: do finds the row and
// changes it, respond answers.
func (s *Sandbox) onTable(c *call, do func(t *table, now time.Time) (*Row, error), respond func(*table, *Row) answer) apply {
	return func() (answer, error) {
		now := s.conf.Now()
		c.table.mu.Lock()
		defer c.table.mu.Unlock()
		r, err := do(c.table, now)
		if err != nil {
			return answer{}, err
		}
		c.ID, c.Key, c.Seq = r.ID, r.Key, s.log.seq.Add(1)
		return respond(c.table, r), nil
	}
}

// onRow is onTable for the row that the path names: a profile by its id, a record
// by its business key. missing is the status where there is none.
func (s *Sandbox) onRow(c *call, missing int, do func(*table, *Row, time.Time) error, respond func(*table, *Row) answer) apply {
	return s.onTable(c, func(t *table, now time.Time) (*Row, error) {
		found, what := t.rows[c.ID], "no profile has this id"
		if t.conf.Custom {
			found, what = t.index[businessKey][c.Key], "no record has this business key"
		}
		if found == nil {
			return nil, refuse(missing, "%s", what)
		}
		return found, do(t, found, now)
	}, respond)
}

func remove(t *table, r *Row, _ time.Time) error {
	t.remove(r)
	return nil
}

// snapshot copies a row.
func (r *Row) snapshot() Row {
	c := *r
	c.Values = maps.Clone(r.Values)
	return c
}

// Rows returns a copy of a table by key (Row.Key); nil when there is no such
// table.
func (s *Sandbox) Rows(name string) (rows map[string]Row) {
	s.look(name, func(t *table) { rows = byKey(slices.Collect(maps.Values(t.rows))) })
	return rows
}

// newest are at most n rows of a table, those that changed last, by key; nil
// when there is no such table. Unlike Rows it copies no more than it returns.
func (s *Sandbox) newest(name string, n int) (rows map[string]Row) {
	s.look(name, func(t *table) {
		var found []*Row // the newest first
		for _, r := range t.rows {
			i, _ := slices.BinarySearchFunc(found, r, func(a, b *Row) int {
				return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(b.ID, a.ID))
			})
			if i < n {
				found = slices.Insert(found, i, r)
				found = found[:min(n, len(found))]
			}
		}
		rows = byKey(found)
	})
	return rows
}

func byKey(list []*Row) map[string]Row {
	rows := make(map[string]Row, len(list))
	for _, r := range list {
		rows[r.Key] = r.snapshot()
	}
	return rows
}

// Row returns a copy of the row that has key as the value of one of its unique
// keys or as its business key.
func (s *Sandbox) Row(name, key string) (row Row, found bool) {
	s.look(name, func(t *table) {
		for _, unique := range t.conf.Keys {
			if r := t.index[unique][key]; r != nil && !found {
				row, found = r.snapshot(), true
			}
		}
	})
	return row, found
}

// Len tells how many rows a table has.
func (s *Sandbox) Len(name string) (n int) {
	s.look(name, func(t *table) { n = len(t.rows) })
	return n
}

// look calls at with the table of a name, locked, if there is one.
func (s *Sandbox) look(name string, at func(t *table)) {
	if t := s.tables[name]; t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		at(t)
	}
}

// A profile table and a custom table may have one name. Such two are told apart by
// their kind wherever a Go function, a Load or the page names a table:
// "profile/contacts" and "custom/contacts". All others go by their names.

// tableName is how the table is named among those of the configuration.
func (c Config) tableName(t Table) string { return c.ofKind(t.Name, t.Custom) }

// ofKind is how the table of the name and kind is named.
func (c Config) ofKind(name string, custom bool) string {
	other := func(t Table) bool { return t.Name == name && t.Custom != custom }
	same := func(t Table) bool { return t.Name == name && t.Custom == custom }
	switch {
	case !slices.ContainsFunc(c.Tables, other) || !slices.ContainsFunc(c.Tables, same):
		return name
	case custom:
		return "custom/" + name
	}
	return "profile/" + name
}
