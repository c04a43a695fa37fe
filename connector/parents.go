package connector

import (
	"context"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
)

// parents waits for the calls of mappings that another one names in `after`:
// the immediate lane is another group, perhaps another process, and what it has
// done is what it has committed.
type parents struct {
	source *kafka.Source
	group  string              // of the immediate lane
	topics map[string][]string // by mapping: topics of its parents that go through calls
}

// newParents finds the topics of each mapping's parents.
func newParents(mappings []*router.Compiled, group string) *parents {
	p := &parents{group: group, topics: map[string][]string{}}
	byName := map[string]*router.Compiled{}
	for _, m := range mappings {
		byName[m.Name] = m
	}
	for _, m := range mappings {
		for _, name := range m.Config.After {
			if immediate, _ := byName[name].Lanes(); immediate {
				p.topics[m.Name] = append(p.topics[m.Name], byName[name].Config.Topics...)
			}
		}
	}
	return p
}

// Await returns once the immediate lane has confirmed what the topics of the
// mapping's parents hold at present.
func (p *parents) Await(ctx context.Context, mapping string) error {
	if len(p.topics[mapping]) == 0 {
		return nil
	}
	return p.source.AwaitGroup(ctx, p.group, p.topics[mapping])
}
