// Package router turns events into writes. Mappings are compiled once; after
// that routing is a pure function of record and configuration, so that both
// lanes, reading the same topics as separate consumer groups, always agree
// whose a record is.
//
// It knows values, paths, conditions and expressions. It knows nothing about Kafka
// clients, HTTP, files or the time of day. What a configuration says that can be
// compiled but not work, package check knows.
package router

import (
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// Router knows every mapping, compiled. It is immutable and safe for concurrent
// use.
type Router struct {
	mappings []*Compiled
	topics   map[string]*Topic
}

// Topic is what the mappings that read one topic have in common. Of one that no
// mapping reads, which is nil, nothing becomes anything.
type Topic struct {
	lanes
	mappings []*Compiled
	debezium *schemas.Debezium // nil: values have no envelope
	reads    reads             // nil: everything is read
}

// lanes are those that some writes can take.
type lanes struct{ immediate, batch bool }

// Uses reports whether some writes can take the lane.
func (l lanes) Uses(lane schemas.Lane) bool {
	return lane == schemas.Immediate && l.immediate || lane == schemas.Batch && l.batch
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
	// Warnings are what of the mapping can work but is likely not meant.
	Warnings []problem.Problem
	// Columns are the CSV columns in the order of the file; nil where the
	// mapping never uses the batch lane.
	Columns []CSVColumn

	fields         []field
	key            *field                       // the one of fields that fills the key; nil for canonical events
	keyTarget      values.Target                // the field that the key is written to
	ofObjects      bool                         // fields read members of the value, and none an element of it
	keyFormat      string                       // kafkaKey: text, json or another format
	profileID      *source                      // nil: only an event says it
	op             *operation                   // nil: the event or the envelope says it
	types          map[string]*values.Converter // by the name of an attribute or property
	constants      []columnConstant
	checkedColumns [schemas.OpsEnd][]checkedColumn
	bundle         []*Compiled // parents first; nil: the mapping's files go by themselves
	filesOnly      string      // why no row of its auto routes is called
	when           condition   // nil: all records are the mapping's
	routes         []route
	reads          []readPath // what the conditions read
	conditions     []readings // the same by condition
	evaluations    sync.Pool
	targets        targets // of canonical events
	lanes
}

type route struct {
	when      condition // nil: always
	lane      schemas.Lane
	objective *Objective // nil: it has none
}

// Weight is the share of scarce calls that writes of the mapping's route have, as
// Routed.Route numbers it. It is above 0.
func (c *Compiled) Weight(route int) float64 {
	if w := c.Config.Routes[route].Weight; w != nil {
		return *w
	}
	return 1
}

// Unchanged is for how long after a call no other one is made that says the same; 0: each is
// made.
func (c *Compiled) Unchanged() time.Duration {
	if c.Config.Unchanged == "" {
		return 0
	}
	return c.Config.UnchangedFor
}

// Callable reports whether w can be written by one call.
func (c *Compiled) Callable(w *schemas.Write) bool {
	switch {
	case c.Table.Custom, w.Op == schemas.Upsert:
		return true
	case w.Op == schemas.Create, w.Op == schemas.Merge:
		return false
	}
	return w.ProfileID != ""
}

// Fileable reports whether w can be a row of the mapping's files.
func (c *Compiled) Fileable(w *schemas.Write) bool {
	if c.Import(w.Op) == nil {
		return false
	}
	lane, lost := c.rowLane(w)
	return lane == schemas.Batch && lost == nil
}

// Lanes are those that the mapping uses.
func (c *Compiled) Lanes() []schemas.Lane {
	return slices.DeleteFunc(slices.Clone(schemas.Lanes), func(lane schemas.Lane) bool { return !c.Uses(lane) })
}

// DualLane reports whether keys of the mapping may take either lane.
func (c *Compiled) DualLane() bool { return c.immediate && c.batch }

// Import is the import that loads op's rows, nil where the mapping has none.
func (c *Compiled) Import(op schemas.Op) *Import { return c.Config.Imports.of(op) }

// Compile makes the mappings a Router. It reports everything that cannot be compiled,
// in the order of the mappings: with a problem the Router is for package check to look
// at, not to route with.
func Compile(ms []Mapping) (*Router, []problem.Problem) {
	r := &Router{topics: make(map[string]*Topic)}
	var problems []problem.Problem
	for i := range ms {
		r.add(compile(ms, i, &problems))
	}
	joinBundles(r.mappings)
	for _, c := range r.mappings {
		c.Label = LabelOf(r.mappings, c.Table)
		if c.hasAuto() {
			c.filesOnly = c.AutoByFile(r.mappings)
		}
	}
	return r, problems
}

// LabelOf is the Label of the mappings that write to the table.
func LabelOf(mappings []*Compiled, t schemas.Table) string {
	if slices.ContainsFunc(mappings, func(c *Compiled) bool { return c.Table.Name == t.Name && c.Table.Custom != t.Custom }) {
		return t.Qualified()
	}
	return t.Name
}

func (r *Router) add(c *Compiled) {
	r.mappings = append(r.mappings, c)
	for _, name := range c.Config.Topics {
		t := r.topics[name]
		if t == nil {
			t = &Topic{reads: reads{}}
			if c.Config.Envelope == debezium {
				t.debezium = schemas.NewDebezium(c.Config.UnavailableValue)
			}
			r.topics[name] = t
		}
		t.mappings = append(t.mappings, c)
		if c.fields == nil {
			t.reads = nil
		}
		if t.reads != nil {
			t.reads.addMapping(c)
		}
		t.immediate = t.immediate || c.immediate
		t.batch = t.batch || c.batch
	}
}

// Mappings are all mappings in the order of the configuration.
func (r *Router) Mappings() []*Compiled { return slices.Clone(r.mappings) }

// Mapping is the mapping of that name; nil: there is none.
func (r *Router) Mapping(name string) *Compiled {
	for _, m := range r.mappings {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Topics are the topics that the consumer groups of some lanes subscribe to, sorted.
func (r *Router) Topics(lanes ...schemas.Lane) []string {
	var names []string
	for name := range r.topics {
		if slices.ContainsFunc(lanes, func(lane schemas.Lane) bool { return r.Reads(name, lane) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Reads reports whether some mapping that reads the topic uses the lane. A record that
// cannot be decoded belongs to the immediate lane where both read its topic.
func (r *Router) Reads(topic string, lane schemas.Lane) bool {
	t := r.topics[topic]
	return t != nil && t.Uses(lane)
}

// TopicMappings are the mappings that read a topic, in the order in which Route
// reports them.
func (r *Router) TopicMappings(name string) []*Compiled {
	if t := r.topics[name]; t != nil {
		return slices.Clone(t.mappings)
	}
	return nil
}
