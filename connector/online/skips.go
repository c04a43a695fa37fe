package online

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// skips are the records of one topic that were read, and what skips those that are.
type skips struct {
	read, skipped, notTaken int64
	routes                  map[string]bool // routes to skip that took some: routes[0] of orders
}

// skipsByTopic are those of all topics.
type skipsByTopic map[string]*skips

func (all skipsByTopic) of(topic string) *skips {
	if all[topic] == nil {
		all[topic] = &skips{routes: map[string]bool{}}
	}
	return all[topic]
}

// count is how many records of these topics were read.
func (all skipsByTopic) count(topics []string) (n int64) {
	for _, topic := range topics {
		n += all.of(topic).read
	}
	return n
}

// take counts a record; routed is nothing where it cannot be decoded, or tells of no row.
func (s *skips) take(routed []router.Routed) {
	s.read++
	if len(routed) == 0 || slices.ContainsFunc(routed, func(r router.Routed) bool { return r.Err != nil || r.Lane != schemas.Skip }) {
		return
	}
	s.skipped++
	for i := range routed {
		m := routed[i].Mapping
		if m == nil {
			s.notTaken++
			continue
		}
		s.routes[fmt.Sprintf("routes[%d] of %s", routed[i].Route, m.Name)] = true
	}
}

// checks warn of topics of which every record is skipped. Of few records nothing is said.
func (all skipsByTopic) checks() (checks []Check) {
	for _, topic := range slices.Sorted(maps.Keys(all)) {
		s := all[topic]
		if s.read < router.FewestSought || s.skipped < s.read {
			continue
		}
		var why []string
		if s.notTaken > 0 {
			why = append(why, fmt.Sprintf("for %d of them no mapping's when is true", s.notTaken))
		}
		if len(s.routes) > 0 {
			why = append(why, "the lane skip takes them by "+strings.Join(slices.Sorted(maps.Keys(s.routes)), ", "))
		}
		checks = append(checks, Check{"records of topic " + topic, Warn, fmt.Sprintf(
			"all %d that were read are skipped: %s; if they are wanted, correct the condition: a name or a value in it may be misspelt", s.read, strings.Join(why, ", and "))})
	}
	return checks
}
