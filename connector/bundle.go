package connector

import (
	"slices"

	"github.com/feedsink/feedsink/router"
)

// filed are the mappings with files, those of a bundle together and parents first,
// as the batcher wants them; otherwise in the order of the configuration.
func filed(mappings []*router.Compiled) (filed []*router.Compiled) {
	for _, m := range mappings {
		if _, batch := m.Lanes(); !batch || slices.Contains(filed, m) {
			continue
		}
		if bundle := m.Bundle(); bundle != nil {
			filed = append(filed, bundle...)
			continue
		}
		filed = append(filed, m)
	}
	return filed
}

// ledgerTable is the table that the ledger knows the mapping's imports by: its own,
// or that of its bundle's first mapping.
func ledgerTable(m *router.Compiled) string {
	if bundle := m.Bundle(); bundle != nil {
		return bundle[0].Table.Qualified()
	}
	return m.Table.Qualified()
}

// ledgerTables is ledgerTable by mapping.
func ledgerTables(mappings []*router.Compiled) []string {
	tables := make([]string, len(mappings))
	for _, m := range mappings {
		tables[m.Index] = ledgerTable(m)
	}
	return tables
}

// filedTables are, by topic, the tables that the ledger knows the imports of the
// topic's records by.
func filedTables(mappings []*router.Compiled) map[string][]string {
	tables := map[string][]string{}
	for _, m := range filed(mappings) {
		for _, topic := range m.Config.Topics {
			if t := ledgerTable(m); !slices.Contains(tables[topic], t) {
				tables[topic] = append(tables[topic], t)
			}
		}
	}
	return tables
}
