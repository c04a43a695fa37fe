// Package samples reads files that say what a configuration makes of events: the tables as
// the service defines them, records of the topics, and the rows, the keys that come by
// files and the dead letters that follow. It compares these with what came about, and
// writes that into the file.
//
// It knows the files and the service in process. It knows nothing about mappings, lanes or
// Kafka.
package samples

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// Samples is the content of a file.
type Samples struct {
	Tables  map[string]Table  `yaml:"tables"`
	Schemas map[string]string `yaml:"schemas"` // by subject
	Events  []Event           `yaml:"events"`
	Result  `yaml:",inline"`  // that is expected
}

// Table is a table as the service defines it.
type Table struct {
	Custom        bool                `yaml:"custom"`
	Keys          []string            `yaml:"keys"`
	Fields        map[string]string   `yaml:"fields"` // types, "String list" for several values
	Subscriptions []string            `yaml:"subscriptions"`
	Segments      map[string][]string `yaml:"segments"` // with the names of an exclusive one's segments
}

// Event is a record. Key and value are JSON here, and on the topic what the mapping's
// format makes of them; a key that is a text stays one.
type Event struct {
	Topic   string            `yaml:"topic"`
	Key     any               `yaml:"key"`
	Value   any               `yaml:"value"` // none: no value
	At      time.Time         `yaml:"at"`
	Headers map[string]string `yaml:"headers"`
}

// Result is what becomes of the events.
type Result struct {
	// Rows are all rows of all tables, by table, key and column, as text.
	Rows        map[string]map[string]map[string]string `yaml:"rows" json:"rows"`
	ByFile      map[string][]string                     `yaml:"byFile" json:"byFile"`           // keys that came in a file, by table
	DeadLetters []string                                `yaml:"deadLetters" json:"deadLetters"` // TOPIC: REASON
}

// Read reads a file's content.
func Read(text []byte) (*Samples, error) {
	s := &Samples{}
	if err := yaml.UnmarshalWithOptions(text, s, yaml.Strict()); err != nil {
		return nil, withKeys(text, err)
	}
	var errs []error
	if len(s.Events) == 0 {
		errs = append(errs, errors.New("events: none; write at least one"))
	}
	for _, expected := range []struct {
		what   string
		tables []string
	}{{"rows", slices.Sorted(maps.Keys(s.Rows))}, {"byFile", slices.Sorted(maps.Keys(s.ByFile))}} {
		for _, table := range expected.tables {
			if _, known := s.Tables[table]; !known {
				errs = append(errs, fmt.Errorf("%s.%s: tables does not define this table", expected.what, table))
			}
		}
	}
	return s, errors.Join(errs...)
}

// ServiceTables are the tables for the service in process. Slots do not limit imports.
func (s *Samples) ServiceTables() (all []sandbox.Table) {
	for name, from := range s.Tables {
		table := sandbox.Table{Name: name, Custom: from.Custom, Keys: from.Keys, Subscriptions: from.Subscriptions, SlotsPerDay: 1 << 30}
		for field, kind := range from.Fields {
			kind, list := strings.CutSuffix(kind, " list")
			table.Fields = append(table.Fields, sandbox.Field{Name: field, Type: sandbox.Type(kind), Multi: list})
		}
		for segment, values := range from.Segments {
			table.Segments = append(table.Segments, sandbox.Segment{Name: segment, Values: values})
		}
		all = append(all, table)
	}
	return all
}

// ResultOf is what the service holds in the sample's tables, without dead letters. The
// service keeps calls.
func (s *Samples) ResultOf(service *sandbox.Sandbox) Result {
	r := Result{Rows: map[string]map[string]map[string]string{}, ByFile: map[string][]string{}, DeadLetters: []string{}}
	for table := range s.Tables {
		for key, row := range service.Rows(table) {
			cells := map[string]string{}
			for column := range row.Values {
				if text := row.Text(column); text != "" {
					cells[column] = text
				}
			}
			if r.Rows[table] == nil {
				r.Rows[table] = map[string]map[string]string{}
			}
			r.Rows[table][key] = cells
		}
	}
	for _, execution := range service.Executions() {
		for _, load := range execution.Loads {
			if len(load.Keys) > 0 {
				r.ByFile[load.Table] = append(r.ByFile[load.Table], load.Keys...)
			}
		}
	}
	for table, keys := range r.ByFile {
		slices.Sort(keys)
		r.ByFile[table] = slices.Compact(keys)
	}
	return r
}

// Difference is one thing that is not as expected. An empty Got or Want is nothing there.
type Difference struct {
	Where string `json:"where"` // such as rows.customers.C1.emailAddress, byFile.customers, deadLetters
	Got   string `json:"got"`
	Want  string `json:"want"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s\n  got  %s\n  want %s", d.Where, cmp.Or(d.Got, "nothing"), cmp.Or(d.Want, "nothing"))
}

// Compare tells what of got is not as the sample expects.
func (s *Samples) Compare(got Result) (all []Difference) {
	differs := func(where, got, want string) {
		if got != want {
			all = append(all, Difference{where, got, want})
		}
	}
	for _, table := range slices.Sorted(maps.Keys(s.Tables)) {
		have, want := got.Rows[table], s.Rows[table]
		for _, key := range union(have, want) {
			where := "rows." + table + "." + key
			if have[key] == nil || want[key] == nil {
				differs(where, shownRow(have[key]), shownRow(want[key]))
				continue
			}
			for _, column := range union(have[key], want[key]) {
				differs(where+"."+column, shown(have[key], column), shown(want[key], column))
			}
		}
		differs("byFile."+table, list(got.ByFile[table]), list(s.ByFile[table]))
	}
	differs("deadLetters", list(got.DeadLetters), list(s.DeadLetters))
	return all
}

func union[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

func shown(cells map[string]string, column string) string {
	if text, ok := cells[column]; ok {
		return scalar(text)
	}
	return ""
}

// shownRow is "" for no row.
func shownRow(cells map[string]string) string {
	if cells == nil {
		return ""
	}
	return flowMap(cells)
}

// list is "" for an empty one; the order does not matter.
func list(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return flowList(slices.Sorted(slices.Values(texts)))
}
