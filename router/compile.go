package router

import (
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/feedsink/feedsink/schemas"
)

// Problem is a mistake in the configuration of mappings.
type Problem struct {
	Path    string // where, in the file's own words: mappings[0].routes[1].when
	Message string // what rule the place breaks
	Hint    string // what to write instead, "" where there is nothing to add
}

// String reads `mappings[0].key: missing`.
func (p Problem) String() string {
	if p.Hint == "" {
		return p.Path + ": " + p.Message
	}
	return p.Path + ": " + p.Message + "; hint: " + p.Hint
}

// Router knows every mapping, compiled. It is immutable and safe for concurrent
// use.
type Router struct {
	mappings []*Compiled
	topics   map[string]*topic
}

// topic is what the mappings that read one topic have in common.
type topic struct {
	name             string
	mappings         []*Compiled
	immediate, batch bool
	debezium         *schemas.Debezium // nil: values have no envelope
}

// Compiled is a mapping ready to route. Its exported fields are not to be
// changed.
type Compiled struct {
	Name  string
	Index int // position in the configuration
	Table schemas.Table
	// Label is the table's name wherever it is shown: with the kind where a table of
	// the other kind has the same name.
	Label   string
	KeyName string  // unique-key attribute, or businessKey
	Config  Mapping // the block of configuration it was compiled from

	// Fingerprint changes with everything that decides what a record becomes
	// (key, fields, routes, columns, ETLs) and with nothing else.
	Fingerprint uint64
	// Routes changes with everything that decides which lane a record is, and with
	// nothing else.
	Routes uint64
	// Columns are the CSV columns in the order of the file; nil where the
	// mapping never uses the batch lane.
	Columns []CSVColumn

	fields           []field
	key              *field                // the one of fields that fills the key; nil for canonical events
	keyFormat        string                // kafkaKey: text, json or avro
	profileID        *source               // nil: only an event says it
	op               *operation            // nil: the event or the envelope says it
	types            map[string]*converter // by the name of an attribute or property
	literals         []columnLiteral
	guards           [schemas.Delete + 1][]guard
	bundle           []*Compiled // parents first; nil: the mapping's files go by themselves
	routes           []route
	reads            []readPath // what the conditions of routes look at
	evaluations      sync.Pool
	named            spots // of canonical events
	immediate, batch bool
}

// CSVColumn is one column of the mapping's files.
type CSVColumn struct {
	Header  string
	Section schemas.Section // of the cell that fills it; for the business key: Properties
	Name    string          // of the cell that fills it
	Absent  string          // what a missing cell becomes: empty, immediate or a literal
	Null    string          // what a null cell becomes: the same choices
	// CreateOnly columns hold what only an import that creates may supply: the
	// files of other imports are without them.
	CreateOnly bool
}

type route struct {
	when condition // nil: always
	lane schemas.Lane
}

// Callable reports whether w can be written by one call.
func (c *Compiled) Callable(w *schemas.Write) bool { return c.callable(w) }

// Fileable reports whether w can be a row of the mapping's files.
func (c *Compiled) Fileable(w *schemas.Write) bool {
	if c.Import(w.Op) == nil {
		return false
	}
	lane, lost := c.guard(w)
	return lane == schemas.Batch && lost == nil
}

// Lanes tells which lanes this mapping's writes can take.
func (c *Compiled) Lanes() (immediate, batch bool) { return c.immediate, c.batch }

// DualLane reports whether keys of the mapping may take either lane.
func (c *Compiled) DualLane() bool { return c.immediate && c.batch }

// Import is the import that loads op's rows, nil where the mapping has none.
func (c *Compiled) Import(op schemas.Op) *Import {
	switch op {
	case schemas.Upsert:
		return c.Config.Imports.Upsert
	case schemas.Patch:
		return c.Config.Imports.Patch
	case schemas.Create:
		return c.Config.Imports.Create
	case schemas.Delete:
		return c.Config.Imports.Delete
	}
	return nil
}

// Compile checks the mappings and makes them a Router. It reports every problem
// it finds, in the order of the file; with a problem there is no Router.
func Compile(ms []Mapping) (*Router, []Problem) {
	return compile(&checker{mappings: ms})
}

// CompileUnfinished is Compile for mappings whose ETLs have still to be created:
// whether those that are there fit is not looked at.
func CompileUnfinished(ms []Mapping) (*Router, []Problem) {
	return compile(&checker{mappings: ms, unfinished: true})
}

func compile(ch *checker) (*Router, []Problem) {
	ms := ch.mappings
	r := &Router{topics: make(map[string]*topic)}
	for i := range ms {
		r.add(ch.mapping(i))
	}
	for _, c := range r.mappings {
		c.Label = LabelOf(r.mappings, c.Table)
	}
	ch.together(r.mappings)
	if len(ch.problems) > 0 {
		sort.SliceStable(ch.problems, func(i, j int) bool {
			return mappingOf(ch.problems[i].Path) < mappingOf(ch.problems[j].Path)
		})
		return nil, ch.problems
	}
	return r, nil
}

// LabelOf is the Label of the mappings that write to the table.
func LabelOf(mappings []*Compiled, t schemas.Table) string {
	if slices.ContainsFunc(mappings, func(c *Compiled) bool { return c.Table.Name == t.Name && c.Table.Custom != t.Custom }) {
		return t.Qualified()
	}
	return t.Name
}

func mappingOf(path string) int {
	index := 0
	_, _ = fmt.Sscanf(path, "mappings[%d]", &index) // a path of the whole list sorts first
	return index
}

func (r *Router) add(c *Compiled) {
	r.mappings = append(r.mappings, c)
	for _, name := range c.Config.Topics {
		t := r.topics[name]
		if t == nil {
			t = &topic{name: name}
			if c.Config.Envelope == debezium {
				t.debezium = schemas.NewDebezium(c.Config.UnavailableValue)
			}
			r.topics[name] = t
		}
		t.mappings = append(t.mappings, c)
		t.immediate = t.immediate || c.immediate
		t.batch = t.batch || c.batch
	}
}

// Mappings are all mappings in the order of the configuration.
func (r *Router) Mappings() []*Compiled { return slices.Clone(r.mappings) }

// Topics are the topics that a lane's consumer group subscribes to, sorted.
func (r *Router) Topics(lane schemas.Lane) []string {
	var names []string
	for name, t := range r.topics {
		if lane == schemas.Immediate && t.immediate || lane == schemas.Batch && t.batch {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TopicLanes tells which lanes read a topic; neither, where no mapping names
// it. A record that cannot be decoded belongs to the immediate lane where both
// read it.
func (r *Router) TopicLanes(name string) (immediate, batch bool) {
	if t := r.topics[name]; t != nil {
		return t.immediate, t.batch
	}
	return false, false
}

// Format is the format of a topic's values, the same for all of its mappings;
// "" where no mapping names the topic.
func (r *Router) Format(name string) string {
	if t := r.topics[name]; t != nil {
		return orDefault(t.mappings[0].Config.Format, "json")
	}
	return ""
}

// KeyFormat is how the keys of a topic's records are read, the same for all of
// its mappings; "" where no mapping names the topic.
func (r *Router) KeyFormat(name string) string {
	if t := r.topics[name]; t != nil {
		return t.mappings[0].Config.keyWord()
	}
	return ""
}

// TopicMappings are the mappings that read a topic, in the order in which Route
// reports them.
func (r *Router) TopicMappings(name string) []*Compiled {
	if t := r.topics[name]; t != nil {
		return slices.Clone(t.mappings)
	}
	return nil
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
