// Package check finds what the configuration of mappings says that can be compiled
// but not work: what is missing, what contradicts itself, and what mappings cannot
// do together.
//
// It knows the configuration and what package router compiled of it. It knows no
// record.
package check

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// Compile compiles the mappings and checks them. It reports every problem it finds,
// in the order of the mappings; with a problem there is no Router.
func Compile(ms []router.Mapping) (*router.Router, []problem.Problem) { return compile(ms, false) }

// CompileUnfinished is Compile for mappings whose ETLs have still to be created:
// whether those that are there fit is not looked at.
func CompileUnfinished(ms []router.Mapping) (*router.Router, []problem.Problem) {
	return compile(ms, true)
}

func compile(ms []router.Mapping, unfinished bool) (*router.Router, []problem.Problem) {
	r, uncompiled := router.Compile(ms)
	var problems []problem.Problem
	all := &mappings{compiled: r.Mappings(), unfinished: unfinished}
	for i, c := range all.compiled {
		m := &mapping{problem.NewReporter(fmt.Sprintf("mappings[%d]", i), &problems), all, c, &c.Config}
		m.words()
		m.routeNames()
		m.table()
		m.keys()
		m.envelope()
		m.opsOfRoutes()
		m.imports()
		m.uniqueName()
		m.uniqueTable()
		m.formatOfTopics()
		m.after()
		m.bundle()
		m.unchanged()
	}
	if problems = append(problems, uncompiled...); len(problems) == 0 {
		return r, nil
	}
	slices.SortStableFunc(problems, func(a, b problem.Problem) int { return cmp.Compare(index(a.Path), index(b.Path)) })
	return nil, problems
}

// Warnings are what of mappings without a problem can work but is likely not meant, in
// the order of the mappings.
func Warnings(r *router.Router) (warnings []problem.Problem) {
	all := &mappings{compiled: r.Mappings()}
	for i, c := range all.compiled {
		warnings = append(warnings, c.Warnings...)
		m := &mapping{problem.NewReporter(fmt.Sprintf("mappings[%d]", i), &warnings), all, c, &c.Config}
		m.takenTwice()
		m.routesWithoutEffect()
		m.autoByFile()
		m.linkedRecords()
		m.dependsOnLane()
		m.literalsWithoutType()
		m.leftOut()
		m.slotsFit()
		m.slotsForTimes()
	}
	return warnings
}

// routesWithoutEffect warns of routes to calls on which every record goes by file, since
// the interface has no call for it.
func (m *mapping) routesWithoutEffect() {
	op, always := m.onlyOp()
	if !always || m.c.Import(op) == nil || m.c.Callable(&schemas.Write{Op: op, ProfileID: m.m.ProfileID}) {
		return
	}
	for i, r := range m.m.Routes {
		switch path := fmt.Sprintf("routes[%d].lane", i); {
		case r.Lane != "immediate":
		case op == schemas.Create, op == schemas.Merge:
			m.Report(path, "write batch", "has no effect: every record is a %v, which for a profile goes only by an import", op)
		default:
			m.Report(path, "add profileId, the path of the service's id; or write batch",
				"has no effect: every record is a %v, and without the profile's id it goes by file", op)
		}
	}
}

// autoByFile warns of auto routes of which no row is ever called.
func (m *mapping) autoByFile() {
	why := m.c.FilesOnly()
	if op, always := m.onlyOp(); why == "" && always && !m.c.Callable(&schemas.Write{Op: op, ProfileID: m.m.ProfileID}) {
		why = fmt.Sprintf("every record is a %v, which has no call without the profile's id", op)
		if op == schemas.Create || op == schemas.Merge {
			why = fmt.Sprintf("every record is a %v, which for a profile has no call", op)
		}
	}
	for i, r := range m.m.Routes {
		if _, _, auto := r.Auto(); auto && why != "" {
			m.Report(fmt.Sprintf("routes[%d].lane", i), "write batch", "auto is as batch here, and all rows go by file: %s", why)
		}
	}
}

// onlyOp is the op of all records that have a value, if the mapping gives them one.
func (m *mapping) onlyOp() (op schemas.Op, always bool) {
	if len(m.m.Fields) == 0 || m.m.Op == "" && m.m.Envelope == "debezium" {
		return op, false // each record says it
	}
	return schemas.ParseOp(cmp.Or(m.m.Op, "upsert"))
}

// takenTwice warns of topics of which another mapping takes every record, too, and
// writes it to another table of the same kind. Those that are joined are meant so.
func (m *mapping) takenTwice() {
	for i, name := range m.m.Topics {
		other := m.all.first(func(o *router.Mapping) bool {
			joined := o.Bundle != "" && o.Bundle == m.m.Bundle || slices.Contains(o.After, m.m.Name) || slices.Contains(m.m.After, o.Name)
			return slices.Contains(o.Topics, name) && o.When == "" && (o.CustomTable == "") == (m.m.CustomTable == "") && !joined
		})
		if other != nil && other.Index < m.c.Index && m.m.When == "" {
			m.Report(fmt.Sprintf("topics[%d]", i), "divide the topic by when; or join the mappings by after or bundle, if both tables are meant",
				"mappings[%d] takes every record of the topic %s, too, so each is written to both tables", other.Index, name)
		}
	}
}

// index is the number of the mapping that a path begins with.
func index(path string) (i int) {
	_, _ = fmt.Sscanf(path, "mappings[%d]", &i)
	return i
}

// mappings are all of the configuration.
type mappings struct {
	compiled   []*router.Compiled
	unfinished bool // their ETLs are not looked at
}

// first is the first of the mappings for which is holds; nil where there is none.
func (all *mappings) first(is func(m *router.Mapping) bool) *router.Compiled {
	for _, c := range all.compiled {
		if is(&c.Config) {
			return c
		}
	}
	return nil
}

// mapping is one of them under check.
type mapping struct {
	problem.Reporter
	all *mappings
	c   *router.Compiled
	m   *router.Mapping
}

var (
	mappingName = regexp.MustCompile(`^[a-z0-9_-][a-z0-9._-]{0,99}$`) // "." and ".." cannot stand in the address of a command's request
	routeName   = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,99}$`)
	topicName   = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

const wantName = "%q: 1 to 100 lower-case letters, digits, dots, dashes and underscores"

// words checks the mapping's name, its topics and the words for how they are read.
func (m *mapping) words() {
	switch {
	case m.m.Name == "":
		m.Report("name", "", "missing")
	case !mappingName.MatchString(m.m.Name):
		m.Report("name", "", wantName+", no dot first", m.m.Name)
	}
	if len(m.m.Topics) == 0 {
		m.Report("topics", "name at least one topic", "missing")
	}
	for i, name := range m.m.Topics {
		path := fmt.Sprintf("topics[%d]", i)
		switch {
		case !topicName.MatchString(name) || name == "." || name == "..":
			m.Report(path, "write up to 249 of the characters a-z A-Z 0-9 . _ -", "%q is not the name of a topic", name)
		case slices.Index(m.m.Topics, name) < i:
			m.Report(path, "", "%q is named twice", name)
		}
	}
	m.Choice("format", m.m.Format, "json", "avro", "json-schema", "protobuf")
	m.Choice("envelope", m.m.Envelope, "none", "debezium", router.CloudEvents)
	m.Choice("kafkaKey", m.m.KafkaKey, "text", "json", "avro", "json-schema", "protobuf")
}

// routeNames checks what routes are called. A number stands for one without a name.
func (m *mapping) routeNames() {
	for i, r := range m.m.Routes {
		path := fmt.Sprintf("routes[%d].name", i)
		first := slices.IndexFunc(m.m.Routes, func(o router.Route) bool { return o.Name == r.Name })
		switch {
		case r.Name == "":
		case !routeName.MatchString(r.Name):
			m.Report(path, "", wantName+", a letter first", r.Name)
		case first < i:
			m.Report(path, "give each route of the mapping a name of its own", "%q is the name of routes[%d] too", r.Name, first)
		}
	}
}

func (m *mapping) table() {
	profile, custom := m.m.ProfileTable, m.m.CustomTable
	switch {
	case profile == "" && custom == "":
		m.Report("", "add profileTable or customTable", "names no table")
	case profile != "" && custom != "":
		m.Report("customTable", "make it two mappings", "a mapping has one table, profileTable or customTable")
	}
	switch {
	case m.m.Key == "" && custom != "":
		m.Report("key", "write businessKey", "missing")
	case m.m.Key == "":
		m.Report("key", "name the unique-key attribute of the table", "missing")
	case custom != "" && m.m.Key != "businessKey":
		m.Report("key", "write businessKey", "the key of a custom table is businessKey, not %q", m.m.Key)
	case custom == "":
		if place, _ := values.ParsePlace(m.c.Table, m.m.Key); place.Section != schemas.Attributes {
			m.Report("key", "name the unique-key attribute of the table", "%q is no attribute", m.m.Key)
		}
	}
	if m.m.ProfileID != "" && custom != "" {
		m.Report("profileId", "", "records of a custom table have no profile id")
	}
}

// envelope checks what belongs to an envelope.
func (m *mapping) envelope() {
	debezium := m.m.Envelope == "debezium"
	switch {
	case !debezium && m.m.UnavailableValue != "":
		m.Report("unavailableValue", "add envelope: debezium", "is a word of Debezium's, but the mapping reads other events")
	case debezium && len(m.m.Fields) == 0:
		m.Report("fields", "name the columns of the source table: {from: id, to: "+cmp.Or(m.m.Key, "businessKey")+"}",
			"missing: what Debezium sends are rows of a database, not canonical events")
	}
}

// opsOfRoutes refuses routes on which every record of the mapping would end as a
// dead letter.
func (m *mapping) opsOfRoutes() {
	op, always := m.onlyOp()
	if !always {
		return
	}
	// A record may have the id that profileId names.
	callable := m.c.Callable(&schemas.Write{Op: op, ProfileID: m.m.ProfileID})
	article := "a"
	if op == schemas.Upsert {
		article = "an"
	}
	for i, r := range m.m.Routes {
		path := fmt.Sprintf("routes[%d].lane", i)
		switch {
		case m.c.Import(op) != nil, r.Lane == "skip":
		case r.Lane == "batch", r.Lane == "auto":
			m.Report(path, "add imports."+op.String(), "every record is %s %v, and no import loads it", article, op)
		case callable:
		case op == schemas.Create:
			m.Report(path, "add imports.create", "every record is a create, and a profile is created only by an import")
		case op == schemas.Merge:
			m.Report(path, "add imports.merge", "every record is a merge, and a profile is merged only by an import")
		default:
			m.Report(path, "add profileId, the path of the service's id, or imports."+op.String(),
				"every record is %s %v, and a call needs the profile's id", article, op)
		}
	}
}

func (m *mapping) uniqueName() {
	if first := m.all.first(func(o *router.Mapping) bool { return o.Name == m.m.Name }); first != m.c && m.m.Name != "" {
		m.Report("name", "", "%q is the name of mappings[%d] too", m.m.Name, first.Index)
	}
}

// uniqueTable: order, slots and compaction belong to a table, so one mapping feeds it.
func (m *mapping) uniqueTable() {
	path, table := "profileTable", m.c.Table
	if table.Custom {
		path = "customTable"
	}
	first := slices.IndexFunc(m.all.compiled, func(c *router.Compiled) bool { return c.Table == table })
	if table.Name != "" && first < m.c.Index {
		m.Report(path, "give one mapping all of the table's topics", "mappings[%d] feeds the table %q already", first, table.Name)
	}
}

// formatOfTopics: a record is decoded once, whatever the number of mappings that read it.
func (m *mapping) formatOfTopics() {
	for _, name := range m.m.Topics {
		first := m.all.first(func(o *router.Mapping) bool { return slices.Contains(o.Topics, name) })
		other := &first.Config
		for _, p := range []struct{ path, mine, theirs string }{
			{"format", m.m.ValueFormat(), other.ValueFormat()},
			{"envelope", cmp.Or(m.m.Envelope, "none"), cmp.Or(other.Envelope, "none")},
			{"kafkaKey", m.m.KeyFormat(), other.KeyFormat()},
			{"unavailableValue", m.m.UnavailableValue, other.UnavailableValue},
		} {
			if p.mine != p.theirs {
				m.Report(p.path, "write the same for all mappings of the topic: a record is decoded once", "%s, but mappings[%d] reads the topic %s as %s", p.mine, first.Index, name, p.theirs)
			}
		}
	}
}

// after checks that `after` names mappings and leads back to none of them.
func (m *mapping) after() {
	for i, name := range m.m.After {
		path := fmt.Sprintf("after[%d]", i)
		parent := m.all.first(func(o *router.Mapping) bool { return o.Name == name })
		switch {
		case parent == nil:
			m.Report(path, problem.Suggest(name, m.otherNames()...), "there is no mapping %q", name)
		case parent == m.c:
			m.Report(path, "", "a mapping cannot wait for itself")
		case m.all.leads(parent, waitsFor, func(c *router.Compiled) bool { return c == m.c }):
			m.Report(path, "", "%q waits for this mapping, directly or through others", name)
		}
	}
}

func (m *mapping) otherNames() (names []string) {
	for _, c := range m.all.compiled {
		if c != m.c {
			names = append(names, c.Name)
		}
	}
	return names
}

// waitsFor reports whether a mapping names another in `after`.
func waitsFor(waiting, parent *router.Compiled) bool {
	return slices.Contains(waiting.Config.After, parent.Name)
}

// leads walks from a mapping along the steps that there are between two, and looks
// for one that is meant.
func (all *mappings) leads(from *router.Compiled, step func(a, b *router.Compiled) bool, to func(c *router.Compiled) bool) bool {
	seen := []*router.Compiled{from}
	for i := 0; i < len(seen); i++ {
		for _, c := range all.compiled {
			if slices.Contains(seen, c) || !step(seen[i], c) {
				continue
			}
			if to(c) {
				return true
			}
			seen = append(seen, c)
		}
	}
	return false
}
