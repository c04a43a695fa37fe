package imports

import (
	"context"

	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Parents waits for the calls of mappings that another one names in `after`:
// the immediate lane is another group, perhaps another process, and what it has
// done is what it has committed.
type Parents struct {
	source *kafka.Source
	group  string              // of the immediate lane
	topics map[string][]string // by mapping: topics of its parents that go through calls
}

// NewParents finds the topics of each mapping's parents.
func NewParents(source *kafka.Source, mappings []*router.Compiled, group string) *Parents {
	p := &Parents{source: source, group: group, topics: map[string][]string{}}
	byName := map[string]*router.Compiled{}
	for _, m := range mappings {
		byName[m.Name] = m
	}
	for _, m := range mappings {
		for _, name := range m.Config.After {
			if byName[name].Uses(schemas.Immediate) {
				p.topics[m.Name] = append(p.topics[m.Name], byName[name].Config.Topics...)
			}
		}
	}
	return p
}

// Await returns once the immediate lane has confirmed what the topics of the
// mapping's parents hold at present, but for some records.
func (p *Parents) Await(ctx context.Context, mapping string, but func() map[reconcile.At]bool) error {
	if len(p.topics[mapping]) == 0 {
		return nil
	}
	return p.source.AwaitGroup(ctx, p.group, p.topics[mapping], func() map[cluster.RecordPlace]bool {
		places := map[cluster.RecordPlace]bool{}
		for at := range but() {
			if a, ok := at.Partition.(Partition); ok {
				places[cluster.RecordPlace{TopicPartition: cluster.TopicPartition{Topic: a.Topic, Partition: a.ID}, Offset: at.Offset}] = true
			}
		}
		return places
	})
}
