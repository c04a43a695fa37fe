package router

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// bundles joins the mappings of each bundle and checks that their files can go as
// one.
func (ch *checker) bundles(compiled []*Compiled) {
	link(compiled)
	for i, c := range compiled {
		s := &scope{checker: ch, index: i, m: &ch.mappings[i], c: c}
		switch {
		case c.bundle != nil:
			s.bundled()
		case s.m.Imports.FileName != "":
			s.problem("imports.fileName", "leave it out, or add bundle", "is a name in the ZIP of a bundle, and the mapping is in none")
		}
	}
}

// bundled checks one mapping of a bundle.
func (s *scope) bundled() {
	if !mappingName.MatchString(s.m.Bundle) {
		s.problem("bundle", "", "%q: lower-case letters, digits, dots, dashes and underscores only", s.m.Bundle)
	}
	if i := slices.IndexFunc(s.mappings, func(m Mapping) bool { return m.Name == s.m.Bundle && m.Bundle != s.m.Bundle }); i >= 0 {
		s.problem("bundle", "", "%q is the name of mappings[%d], which is not in it: their files would look alike", s.m.Bundle, i)
	}
	if len(s.c.bundle) == 1 {
		hint := similar(s.m.Bundle, s.otherBundles()...)
		s.problem("bundle", orDefault(hint, "leave it out, or give it to the mappings whose files go with this one's"), "no other mapping is in the bundle %q", s.m.Bundle)
	}
	if !s.c.batch {
		s.problem("bundle", "leave it out", "no route leads to the batch lane, so there are no files to be bundled")
		return
	}
	if c := s.m.Imports.CSV.Compression; c != "" && c != "ZIP" {
		s.problem("imports.csv.compression", "leave it out", "%s: the files of a bundle go as one ZIP", c)
	}
	s.entryName()
	s.likeTheFirst()
	s.bundledParents()
	s.createBehind()
	s.fitting()
}

// otherBundles are the names of the other bundles.
func (s *scope) otherBundles() (names []string) {
	for i := range s.mappings {
		if name := s.mappings[i].Bundle; name != "" && name != s.m.Bundle && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

var entryPattern = regexp.MustCompile(`^[A-Za-z0-9._ -]+(\$YYYYMMDD[A-Za-z0-9._ -]*)?$`)

// entryName checks the mapping's name in the ZIP.
func (s *scope) entryName() {
	if name := s.c.EntryName(); !entryPattern.MatchString(name) {
		s.problem("imports.fileName", "", "%q: letters, digits, dots, dashes, underscores and spaces only, and behind the first of them once $YYYYMMDD", name)
	}
	for _, other := range s.c.bundle {
		if other.Index < s.index && strings.EqualFold(other.EntryName(), s.c.EntryName()) {
			s.problem("imports.fileName", "", "%q is the name of the file of mappings[%d] too", s.c.EntryName(), other.Index)
		}
	}
}

// likeTheFirst checks what must be the same for all, against the bundle's first
// mapping of the configuration.
func (s *scope) likeTheFirst() {
	first := slices.MinFunc(s.c.bundle, func(a, b *Compiled) int { return a.Index - b.Index })
	if first == s.c {
		return
	}
	mine, theirs := &s.m.Imports, &first.Config.Imports
	for _, p := range []struct {
		path         string
		mine, theirs any
		why          string
	}{
		{"imports.roll", mine.Roll, theirs.Roll, "the files of a bundle are complete together"},
		{"imports.retryFailed", mine.RetryFailed, theirs.RetryFailed, "the files of a bundle are tried again together"},
		{"imports.timezone", mine.Timezone, theirs.Timezone, "the imports of a bundle belong to one calendar day"},
	} {
		if p.mine != p.theirs {
			s.problem(p.path, fmt.Sprintf("write what mappings[%d] has", first.Index), "%s, but mappings[%d] of the bundle %q has another", p.why, first.Index, s.m.Bundle)
		}
	}
	for op := schemas.Upsert; op <= schemas.Delete; op++ {
		load := s.c.Import(op)
		if load == nil {
			continue
		}
		for _, other := range s.c.bundle {
			if theirs := other.Import(op); other.Index < s.index && theirs != nil && theirs.ETL != load.ETL {
				s.problem("imports."+op.String()+".etl", "`feedsink etl create` makes the one for all of them",
					"%s, but mappings[%d] of the bundle %q names %s: one ETL loads what one ZIP holds", load.ETL, other.Index, s.m.Bundle, theirs.ETL)
				break
			}
		}
	}
}

// bundledParents checks `after` against the bundle, which waits as a whole.
func (s *scope) bundledParents() {
	for i, name := range s.m.After {
		path := fmt.Sprintf("after[%d]", i)
		parent := slices.IndexFunc(s.mappings, func(m Mapping) bool { return m.Name == name })
		if parent < 0 {
			continue // said elsewhere
		}
		if s.mappings[parent].Bundle != s.m.Bundle {
			if s.waitsForBundle(parent) {
				s.problem(path, "put it into the bundle too, or leave it out", "%q waits for a mapping of the bundle %q, which would wait for itself", name, s.m.Bundle)
			}
			continue
		}
		// The file would wait for calls, and a call that patches what is only in
		// the file for the file.
		for _, c := range s.c.bundle {
			if c.Name == name && c.immediate {
				s.problem(path, "route all of it to the batch lane, or leave out bundle or after", "%q goes through the immediate lane too, which a file that holds its rows cannot wait for", name)
			}
		}
	}
}

// waitsForBundle walks from a mapping outside of the bundle through what it waits
// for and looks for one of it. A bundle on the way waits for all that its mappings
// wait for.
func (s *scope) waitsForBundle(from int) bool {
	seen, next := []int{from}, []int{from}
	for len(next) > 0 {
		at := &s.mappings[next[0]]
		next = next[1:]
		for i := range s.mappings {
			m := &s.mappings[i]
			if slices.Contains(seen, i) || !slices.Contains(at.After, m.Name) && (at.Bundle == "" || m.Bundle != at.Bundle) {
				continue
			}
			if m.Bundle == s.m.Bundle {
				return true
			}
			seen, next = append(seen, i), append(next, i)
		}
	}
	return false
}

// createBehind refuses creates that would come behind rows that link to them. The
// files of each op go as one ZIP, first deletes, then upserts, creates, patches;
// and a create of a key that was patched before opens a second round.
func (s *scope) createBehind() {
	behind := s.c.bundle[slices.Index(s.c.bundle, s.c)+1:]
	if s.m.Imports.Create == nil || len(behind) == 0 {
		return
	}
	if s.m.Imports.Patch != nil {
		s.problem("imports.create", "leave one of them out, or bundle", "a create behind a patch goes behind the rows of %q, which link to it", behind[0].Name)
		return
	}
	for _, child := range behind {
		if child.Config.Imports.Upsert != nil {
			s.problem("imports.create", "load them by upsert, or leave out bundle", "creates are loaded behind the upserts of %q, which link to them", child.Name)
			return
		}
	}
}
