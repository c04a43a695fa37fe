package waits

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
)

// OfPartitions are the partitions that wait for the other lane, or for room in their
// ledgers, together where they wait for the same.
func OfPartitions(ps []*kafka.Partition) (all []observe.Wait) {
	type place struct{ cause, topic, why string }
	ids := map[place][]int32{}
	for _, p := range ps {
		for cause, why := range map[string]string{OtherLane: p.WaitsFor(), LedgerFull: LacksRoom(p.LacksRoom())} {
			if why != "" {
				at := place{cause, p.Topic, why}
				ids[at] = append(ids[at], p.ID)
			}
		}
	}
	for at, partitions := range ids {
		slices.Sort(partitions)
		all = append(all, observe.Wait{Cause: at.cause, Topic: at.topic, Why: fmt.Sprintf("records of partitions %v wait: %s", partitions, at.why)})
	}
	slices.SortFunc(all, func(a, b observe.Wait) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Why, b.Why)) })
	return all
}
