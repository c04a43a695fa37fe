package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// How much of the newest the overview shows.
const (
	shownExecutions = 50
	shownCalls      = 200
)

// Overview is what the page shows: all tables and ETLs, the newest of the rest
// first.
type Overview struct {
	Entity     string          `json:"entity"`
	Now        time.Time       `json:"now"`
	Tables     []TableOverview `json:"tables"`
	ETLs       []ETLOverview   `json:"etls"`
	Executions []Execution     `json:"executions"` // without the keys of their rows
	Calls      []Call          `json:"calls"`
	Counts     map[int]int64   `json:"counts"` // calls received, by operation
	Faults     int             `json:"faults"` // injected and not used up
	Held       bool            `json:"held"`   // executions wait to be released
}

// TableOverview is a table and how it is filled.
type TableOverview struct {
	Name        string   `json:"name"`
	Custom      bool     `json:"custom"`
	Keys        []string `json:"keys"`
	Fields      []string `json:"fields"` // as columns of a file would name them
	Rows        int      `json:"rows"`
	SlotsUsed   int      `json:"slotsUsed"` // today
	SlotsPerDay int      `json:"slotsPerDay"`
}

// ETLOverview is a stored definition.
type ETLOverview struct {
	ID     string   `json:"id"`
	Loads  []string `json:"loads"` // table and mode
	Fetch  string   `json:"fetch,omitempty"`
	Paused bool     `json:"paused,omitempty"`
}

// Overview looks at everything once. What happens meanwhile may be seen in one
// part and not yet in another.
func (s *Sandbox) Overview() Overview {
	o := Overview{Entity: s.conf.Entity, Now: s.conf.Now(), Counts: s.counts(), Faults: s.armed()}
	for _, t := range s.conf.Tables { // in the order of the configuration
		name := s.conf.tableName(t)
		o.Tables = append(o.Tables, TableOverview{
			Name: name, Custom: t.Custom, Keys: t.Keys, Rows: s.Len(name), Fields: slices.Sorted(maps.Keys(s.tables[name].rules)),
			SlotsUsed: s.SlotsUsed(name, o.Now), SlotsPerDay: t.SlotsPerDay,
		})
	}
	s.imports.mu.Lock()
	for _, e := range s.imports.etls {
		o.ETLs = append(o.ETLs, ETLOverview{ID: e.ID, Loads: e.summary(), Fetch: e.Fetch.Remote, Paused: e.Paused})
	}
	for _, e := range slices.Backward(s.imports.all[max(0, len(s.imports.all)-shownExecutions):]) {
		state := e.state
		state.Loads = slices.Clone(state.Loads)
		for i := range state.Loads {
			state.Loads[i].Keys = nil
		}
		o.Executions = append(o.Executions, state)
	}
	o.Held = s.imports.held
	s.imports.mu.Unlock()
	slices.SortFunc(o.ETLs, func(a, b ETLOverview) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID)) // as the numbers they mostly are
	})
	calls := s.Calls()
	o.Calls = calls[max(0, len(calls)-shownCalls):]
	slices.Reverse(o.Calls)
	return o
}

// armed counts the faults that may still fire.
func (s *Sandbox) armed() int {
	n := 0
	for _, f := range s.Faults() {
		if (f.Count == 0 || f.Fired < f.Count) && (f.Nth == 0 || f.Seen < f.Nth) {
			n++
		}
	}
	return n
}

// summary names what each file of an ETL does.
func (e ETL) summary() []string {
	var loads []string
	for _, l := range e.Loads {
		loads = append(loads, fmt.Sprintf("%s %s", l.Table, l.Mode))
	}
	return loads
}

// newest are at most n rows of a table, those that changed last, by key; nil
// when there is no such table. Unlike Rows it copies no more than it returns.
func (s *Sandbox) newest(name string, n int) map[string]Row {
	t, ok := s.tables[name]
	if !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []*Row // the newest first
	for _, r := range t.rows {
		i, _ := slices.BinarySearchFunc(found, r, later)
		if i < n {
			found = slices.Insert(found, i, r)
			found = found[:min(n, len(found))]
		}
	}
	rows := make(map[string]Row, len(found))
	for _, r := range found {
		rows[r.Key] = r.snapshot()
	}
	return rows
}

// later orders rows by their last change, the newest first.
func later(a, b *Row) int {
	return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(b.ID, a.ID))
}

// tellRows answers with a table's rows, all or the newest of them.
func (s *Sandbox) tellRows(r *http.Request) (any, error) {
	var rows map[string]Row
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, refuse(http.StatusBadRequest, "limit: a number above 0 is expected")
		}
		rows = s.newest(r.PathValue("table"), n)
	} else {
		rows = s.Rows(r.PathValue("table"))
	}
	if rows == nil {
		return nil, refuse(http.StatusNotFound, "no such table")
	}
	return rows, nil
}
