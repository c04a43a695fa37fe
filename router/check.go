package router

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// checker gathers the problems of all mappings.
type checker struct {
	mappings   []Mapping
	unfinished bool // its ETLs are not looked at
	problems   []Problem
}

// scope is one mapping under check.
type scope struct {
	*checker
	index int
	m     *Mapping
	c     *Compiled
}

func (s *scope) problem(path, hint, format string, args ...any) {
	at := fmt.Sprintf("mappings[%d]", s.index)
	if path != "" {
		at += "." + path
	}
	s.problems = append(s.problems, Problem{Path: at, Message: fmt.Sprintf(format, args...), Hint: hint})
}

var (
	mappingName = regexp.MustCompile(`^[a-z0-9._-]{1,100}$`)
	topicName   = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

// mapping checks mapping i for itself and compiles what of it can be compiled.
func (ch *checker) mapping(i int) *Compiled {
	m := &ch.mappings[i]
	s := &scope{checker: ch, index: i, m: m, c: &Compiled{Name: m.Name, Index: i, KeyName: m.Key, Config: *m}}
	s.c.Table = schemas.Table{Name: m.ProfileTable}
	if m.CustomTable != "" {
		s.c.Table = schemas.Table{Name: m.CustomTable, Custom: true}
	}
	s.c.keyFormat = m.keyFormat()
	s.names()
	s.formats()
	s.table()
	s.envelope()
	s.compileTypes()
	s.compileOp()
	s.compileFields()
	s.compileRoutes()
	s.possible()
	s.lanes()
	s.compileLiterals()
	s.imports()
	s.c.Fingerprint, s.c.Routes = fingerprint(m), routesFingerprint(s.c)
	s.c.evaluations.New = func() any { return &evaluation{env: make(map[string]any, len(s.c.reads))} }
	return s.c
}

func (s *scope) names() {
	switch {
	case s.m.Name == "":
		s.problem("name", "", "missing")
	case !mappingName.MatchString(s.m.Name):
		s.problem("name", "", "%q: lower-case letters, digits, dots, dashes and underscores only", s.m.Name)
	}
	if len(s.m.Topics) == 0 {
		s.problem("topics", "name at least one topic", "missing")
	}
	for i, name := range s.m.Topics {
		path := fmt.Sprintf("topics[%d]", i)
		switch {
		case !topicName.MatchString(name) || name == "." || name == "..":
			s.problem(path, "", "%q is not the name of a topic", name)
		case slices.Index(s.m.Topics, name) < i:
			s.problem(path, "", "%q is named twice", name)
		}
	}
}

func (s *scope) formats() {
	s.choice("format", s.m.Format, "json", "avro", "json-schema", "protobuf")
	s.choice("envelope", s.m.Envelope, "none", debezium)
	s.choice("kafkaKey", s.m.KafkaKey, "text", "json", "avro")
}

// choice checks a word, which may be missing, against those that there are.
func (s *scope) choice(path, word string, words ...string) {
	if word != "" && !slices.Contains(words, word) {
		s.problem(path, suggest(word, words...), "unknown value %q", word)
	}
}

func (s *scope) table() {
	profile, custom := s.m.ProfileTable, s.m.CustomTable
	switch {
	case profile == "" && custom == "":
		s.problem("", "add profileTable or customTable", "names no table")
	case profile != "" && custom != "":
		s.problem("customTable", "make it two mappings", "a mapping has one table, profileTable or customTable")
	}
	switch {
	case s.m.Key == "" && custom != "":
		s.problem("key", "write businessKey", "missing")
	case s.m.Key == "":
		s.problem("key", "name the unique-key attribute of the table", "missing")
	case custom != "" && s.m.Key != "businessKey":
		s.problem("key", "write businessKey", "the key of a custom table is businessKey, not %q", s.m.Key)
	}
	if s.m.ProfileID != "" {
		s.c.profileID = s.path("profileId", s.m.ProfileID)
		if custom != "" {
			s.problem("profileId", "", "records of a custom table have no profile id")
		}
	}
}

func (s *scope) compileRoutes() {
	if len(s.m.Routes) == 0 {
		s.problem("routes", "write [{lane: immediate}] or [{lane: batch}]", "missing")
	}
	for i, r := range s.m.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		compiled := route{}
		last := i == len(s.m.Routes)-1
		switch {
		case last && r.When != "":
			s.problem(path+".when", "add a last route without when", "the last route must have no condition")
		case !last && r.When == "":
			s.problem(path, "", "has no condition, so the routes after it can never match")
		}
		if r.When != "" {
			compiled.when = s.compileWhen(path+".when", r.When)
		}
		switch r.Lane {
		case "immediate":
			compiled.lane = schemas.Immediate
		case "batch":
			compiled.lane = schemas.Batch
		case "":
			s.problem(path+".lane", "immediate or batch", "missing")
		default:
			s.problem(path+".lane", suggest(r.Lane, "immediate", "batch"), "unknown lane %q", r.Lane)
		}
		s.c.routes = append(s.c.routes, compiled)
	}
}

func (s *scope) compileWhen(path, text string) condition {
	when, reads, err := compileCondition(text, len(s.m.Fields) == 0)
	if err != nil {
		s.conditionProblem(path, err)
		return nil
	}
	for _, p := range reads {
		if !slices.ContainsFunc(s.c.reads, func(q readPath) bool { return q.variable == p.variable }) {
			s.c.reads = append(s.c.reads, p)
		}
	}
	return when
}

// conditionProblem is a problem with a condition or an expression.
func (s *scope) conditionProblem(path string, err error) {
	hint := ""
	if e, ok := errors.AsType[*conditionError](err); ok {
		hint = e.hint
	}
	s.problem(path, hint, "%v", err)
}

// lanes tells which lanes writes of this mapping can end up in: those of its
// routes, and those that place sends them to in spite of the route.
func (s *scope) lanes() {
	for _, r := range s.c.routes {
		s.c.immediate = s.c.immediate || r.lane == schemas.Immediate
		s.c.batch = s.c.batch || r.lane == schemas.Batch
	}
	imports := &s.m.Imports
	if s.c.immediate && !s.c.Table.Custom && (imports.Patch != nil || imports.Create != nil || imports.Delete != nil) {
		s.c.batch = true
	}
	if s.c.batch && slices.ContainsFunc(imports.Columns, func(c Column) bool {
		return c.Absent == toImmediate || c.Null == toImmediate
	}) {
		s.c.immediate = true
	}
}
