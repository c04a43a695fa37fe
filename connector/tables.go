package connector

import "github.com/feedsink/feedsink/router"

// tableGroups names, for each topic, the group of tables it feeds: tables that
// share a topic, or are joined by `after` or `bundle`, need one owner. A group
// is named after its first mapping.
func tableGroups(mappings []*router.Compiled) map[string]string {
	leader := make([]int, len(mappings)) // each points to an earlier one of its group, or to itself
	for i := range leader {
		leader[i] = i
	}
	find := func(i int) int {
		for leader[i] != i {
			i = leader[i]
		}
		return i
	}
	join := func(i, j int) {
		a, b := find(i), find(j)
		leader[max(a, b)] = min(a, b)
	}
	first := map[string]int{} // by what joins: a topic, a bundle, a mapping's name
	for i, m := range mappings {
		joins := []string{"mapping " + m.Name}
		for _, topic := range m.Config.Topics {
			joins = append(joins, "topic "+topic)
		}
		for _, parent := range m.Config.After {
			joins = append(joins, "mapping "+parent)
		}
		if m.Config.Bundle != "" {
			joins = append(joins, "bundle "+m.Config.Bundle)
		}
		for _, key := range joins {
			if j, seen := first[key]; seen {
				join(i, j)
			} else {
				first[key] = i
			}
		}
	}
	groups := map[string]string{}
	for i, m := range mappings {
		for _, topic := range m.Config.Topics {
			groups[topic] = mappings[find(i)].Name
		}
	}
	return groups
}

// tablesOf are, by topic, the group of tables that it feeds, and the tables that the
// ledger knows the imports of its records by.
func tablesOf(mappings []*router.Compiled) (group func(topic string) string, filed func(topic string) []string) {
	groups, tables := tableGroups(mappings), filedTables(mappings)
	return func(topic string) string { return groups[topic] }, func(topic string) []string { return tables[topic] }
}
