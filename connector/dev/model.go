package dev

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// Model is what the tables must hold once every event has been applied.
type Model struct {
	tables map[string]map[string]row // table, key, column
	Dead   int                       // events that must end as dead letters
}

func (m Model) delete(table, key string) { delete(m.tables[table], key) }

func (m Model) merge(table, key string, values row) {
	if m.tables[table][key] == nil {
		m.tables[table][key] = row{}
	}
	maps.Copy(m.tables[table][key], values)
}

// Comparison is one table beside the model.
type Comparison struct {
	Table       string   `json:"table"`
	Rows        int      `json:"rows"` // in the service
	Differences []string `json:"differences,omitempty"`
}

// Compare looks at every row and column of every table.
func (m Model) Compare(service *sandbox.Sandbox) []Comparison {
	var out []Comparison
	for _, table := range slices.Sorted(maps.Keys(m.tables)) {
		have, c := service.Rows(table), Comparison{Table: table}
		c.Rows = len(have)
		for key, want := range m.tables[table] {
			got, there := have[key]
			if !there {
				c.Differences = append(c.Differences, fmt.Sprintf("%s: is missing", key))
				continue
			}
			for column, v := range want {
				if g, w := got.Text(column), text(v); g != w {
					c.Differences = append(c.Differences, fmt.Sprintf("%s %s: got %q, want %q", key, column, g, w))
				}
			}
		}
		for key := range have {
			if m.tables[table][key] == nil {
				c.Differences = append(c.Differences, fmt.Sprintf("%s: should not be there", key))
			}
		}
		slices.Sort(c.Differences)
		out = append(out, c)
	}
	return out
}

// text is a value as the service shows it.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []string:
		b, _ := json.Marshal(v) // strings always can be
		return string(b)
	}
	return fmt.Sprint(v)
}
