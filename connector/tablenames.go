package connector

import (
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// upgrade brings a ledger of the topic up to date that a former version wrote: it
// knew tables by their names, without the kind. Where the mappings have two tables
// of a name, nobody can tell whose slots were counted: they count for both. An
// import is that of the mapping whose fingerprint it has, or that its file is named
// after, or else both tables wait for it.
func upgrade(mappings []*router.Compiled, topic string, l *ack.Ledger) {
	var imports []ack.Import
	for _, im := range l.Imports {
		for _, table := range qualify(im.Table, mappings,
			func(m *router.Compiled) bool { return slices.Contains(m.Config.Topics, topic) },
			func(m *router.Compiled) bool { return m.FileFingerprint() == im.Fingerprint },
			func(m *router.Compiled) bool { return namedAfter(im.File, m.Name) },
		) {
			im.Table = table
			imports = append(imports, im)
		}
	}
	var slots []ack.Slots
	for _, sl := range l.Slots {
		for _, table := range qualify(sl.Table, mappings,
			func(m *router.Compiled) bool { return m.Config.Topics[0] == topic },
		) {
			slots = append(slots, ack.Slots{Table: table, Used: slices.Clone(sl.Used)})
		}
	}
	l.Imports, l.Slots = imports, slots
}

// qualify are the tables that a name on a ledger may stand for. Each clue leaves
// those mappings whom it fits, if there are any.
func qualify(name string, mappings []*router.Compiled, clues ...func(*router.Compiled) bool) (tables []string) {
	if _, ok := schemas.ParseTable(name); ok {
		return []string{name}
	}
	var candidates []*router.Compiled
	for _, m := range filed(mappings) {
		if m.Table.Name == name {
			candidates = append(candidates, m)
		}
	}
	for _, clue := range clues {
		fitting := slices.Clone(candidates)
		if fitting = slices.DeleteFunc(fitting, func(m *router.Compiled) bool { return !clue(m) }); len(fitting) > 0 {
			candidates = fitting
		}
	}
	for _, m := range candidates {
		tables = append(tables, m.Table.Qualified())
	}
	if len(tables) == 0 { // no mapping writes to it any more
		return []string{name}
	}
	return tables
}

// fileTime is how the time stands in the name of a file, behind that of its mapping.
const fileTime = "20060102T150405Z"

// namedAfter reports whether the file is named after the mapping, or bundle.
func namedAfter(file, mapping string) bool {
	rest, ok := strings.CutPrefix(file, mapping+"-")
	if !ok || len(rest) < len(fileTime) {
		return false
	}
	_, err := time.Parse(fileTime, rest[:len(fileTime)])
	return err == nil
}
