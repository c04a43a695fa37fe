package check

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// bundle checks that the files of the mapping's bundle can go as one.
func (m *mapping) bundle() {
	name := m.m.Bundle
	if name == "" {
		if m.m.Imports.FileName != "" {
			m.Report("imports.fileName", "leave it out, or add bundle", "is a name in the ZIP of a bundle, and the mapping is in none")
		}
		return
	}
	if !mappingName.MatchString(name) {
		m.Report("bundle", "", wantName+", no dot first", name)
	}
	if other := m.all.first(func(o *router.Mapping) bool { return o.Name == name && o.Bundle != name }); other != nil {
		m.Report("bundle", "", "%q is the name of mappings[%d], which is not in it: their files would look alike", name, other.Index)
	}
	if len(m.c.Bundle()) == 1 {
		hint := problem.Similar(name, m.otherBundles()...)
		m.Report("bundle", cmp.Or(hint, "leave it out, or give it to the mappings whose files go with this one's"), "no other mapping is in the bundle %q", name)
	}
	if !m.c.Uses(schemas.Batch) {
		m.Report("bundle", "leave it out", "no route leads to the batch lane, so there are no files to be bundled")
		return
	}
	if c := m.m.Imports.CSV.Compression; c != "" && c != "ZIP" {
		m.Report("imports.csv.compression", "leave it out", "%s: the files of a bundle go as one ZIP", c)
	}
	m.entryName()
	m.sameAsFirst()
	m.sameETL()
	m.bundledParents()
	m.createdBehind()
	m.etlsFit()
}

// otherBundles are the names of the other bundles.
func (m *mapping) otherBundles() (names []string) {
	for _, c := range m.all.compiled {
		if name := c.Config.Bundle; name != "" && name != m.m.Bundle {
			names = append(names, name)
		}
	}
	return names
}

var entryPattern = regexp.MustCompile(`^[A-Za-z0-9._ -]+(\$YYYYMMDD[A-Za-z0-9._ -]*)?$`)

// entryName checks the mapping's name in the ZIP.
func (m *mapping) entryName() {
	name := m.c.EntryName()
	if !entryPattern.MatchString(name) {
		m.Report("imports.fileName", "", "%q: letters, digits, dots, dashes, underscores and spaces only, and behind the first of them once $YYYYMMDD", name)
	}
	for _, other := range m.c.Bundle() {
		if other.Index < m.c.Index && strings.EqualFold(other.EntryName(), name) {
			m.Report("imports.fileName", "", "%q is the name of the file of mappings[%d] too", name, other.Index)
		}
	}
}

// sameAsFirst checks what must be the same for all, against the bundle's first
// mapping of the configuration.
func (m *mapping) sameAsFirst() {
	first := m.all.first(func(o *router.Mapping) bool { return o.Bundle == m.m.Bundle })
	mine, theirs := &m.m.Imports, &first.Config.Imports
	for _, p := range []struct {
		path         string
		mine, theirs any
		why          string
	}{
		{"imports.roll", mine.Roll, theirs.Roll, "the files of a bundle are complete together"},
		{"imports.maxFile", mine.MaxFile, theirs.MaxFile, "the files of a bundle have rows of all of its mappings"},
		{"imports.retryFailed", mine.RetryFailed, theirs.RetryFailed, "the files of a bundle are tried again together"},
		{"imports.timezone", mine.Timezone, theirs.Timezone, "the imports of a bundle belong to one calendar day"},
	} {
		if !reflect.DeepEqual(p.mine, p.theirs) {
			m.Report(p.path, fmt.Sprintf("write what mappings[%d] has", first.Index), "%s, but mappings[%d] of the bundle %q has another", p.why, first.Index, m.m.Bundle)
		}
	}
}

func (m *mapping) sameETL() {
	for op, load := range m.m.Imports.All() {
		for _, other := range m.c.Bundle() {
			if theirs := other.Import(op); other.Index < m.c.Index && theirs != nil && theirs.ETL != load.ETL {
				m.Report("imports."+op.String()+".etl", "`feedsink etl create` makes the one for all of them",
					"%s, but mappings[%d] of the bundle %q names %s: one ETL loads what one ZIP holds", load.ETL, other.Index, m.m.Bundle, theirs.ETL)
				break
			}
		}
	}
}

// bundledParents checks `after` against the bundle, which waits as a whole.
func (m *mapping) bundledParents() {
	for i, name := range m.m.After {
		path := fmt.Sprintf("after[%d]", i)
		parent := m.all.first(func(o *router.Mapping) bool { return o.Name == name })
		switch {
		case parent == nil: // after reports it
		case parent.Config.Bundle == m.m.Bundle:
			// The file would wait for calls, and a call that patches what is only in
			// the file for the file.
			if parent.Uses(schemas.Immediate) {
				m.Report(path, "route all of it to the batch lane, or leave out bundle or after", "%q goes through the immediate lane too, which a file that holds its rows cannot wait for", name)
			}
		case m.all.leads(parent, waitsWithBundle, func(c *router.Compiled) bool { return c.Config.Bundle == m.m.Bundle }):
			m.Report(path, "put it into the bundle too, or leave it out", "%q waits for a mapping of the bundle %q, which would wait for itself", name, m.m.Bundle)
		}
	}
}

// waitsWithBundle reports whether a mapping waits for another, or for what another of
// its bundle waits for.
func waitsWithBundle(waiting, c *router.Compiled) bool {
	return waitsFor(waiting, c) || waiting.Config.Bundle != "" && c.Config.Bundle == waiting.Config.Bundle
}

// createdBehind refuses creates and merges that would come behind rows that link to
// them. The files of each op go as one ZIP, first deletes, then upserts, creates,
// patches, merges; and a create of a key that was patched before opens a second round.
func (m *mapping) createdBehind() {
	children := m.c.Bundle()
	children = children[slices.Index(children, m.c)+1:]
	if len(children) == 0 {
		return
	}
	if m.m.Imports.Merge != nil {
		for _, child := range children {
			im := &child.Config.Imports
			if im.Upsert != nil || im.Create != nil || im.Patch != nil {
				m.Report("imports.merge", "load the mappings of the bundle by merges and deletes alone, or leave out bundle",
					"merges are loaded behind the other files of %q, whose rows link to them", child.Name)
				break
			}
		}
	}
	if m.m.Imports.Create == nil {
		return
	}
	if m.m.Imports.Patch != nil {
		m.Report("imports.create", "leave one of them out, or bundle", "a create behind a patch goes behind the rows of %q, which link to it", children[0].Name)
		return
	}
	for _, child := range children {
		if child.Config.Imports.Upsert != nil {
			m.Report("imports.create", "load them by upsert, or leave out bundle", "creates are loaded behind the upserts of %q, which link to them", child.Name)
			return
		}
	}
}
