// Package balance shares the partitions of a group: ordinary cooperative-sticky, or by
// table, so that all partitions that feed one table are one member's.
package balance

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// By is the group's way to share partitions: ordinary cooperative-sticky,
// or by table.
func By(tableOf func(topic string) string) kgo.GroupBalancer {
	if tableOf == nil {
		return kgo.CooperativeStickyBalancer()
	}
	return &affinity{tableOf: tableOf}
}

// affinity gives all partitions of all topics that feed one table to one
// member. Slots, compaction and order belong to a table, so a table has one
// owner. It is sticky, weighs tables by their partitions, and cooperative: a
// table that moves is first given up whole, then handed over whole, and all
// others are never interrupted.
type affinity struct{ tableOf func(topic string) string }

func (*affinity) ProtocolName() string { return "feedsink-tables" }
func (*affinity) IsCooperative() bool  { return true }

// JoinGroupMetadata tells the leader what this member owns, and since when.
func (*affinity) JoinGroupMetadata(topics []string, owned map[string][]int32, generation int32) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = 3
	m.Topics = topics
	m.Generation = generation
	for _, t := range slices.Sorted(maps.Keys(owned)) {
		o := kmsg.NewConsumerMemberMetadataOwnedPartition()
		o.Topic, o.Partitions = t, owned[t]
		m.OwnedPartitions = append(m.OwnedPartitions, o)
	}
	return m.AppendTo(nil)
}

func (*affinity) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	return kgo.ParseConsumerSyncAssignment(assignment)
}

func (a *affinity) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, err := kgo.NewConsumerBalancer(a, members)
	if err != nil {
		return nil, nil, err
	}
	return b, b.MemberTopics(), nil
}

// Balance runs on the group's leader.
func (a *affinity) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	tables := a.tables(topics)
	members := a.members(b)
	share(tables, members)
	plan := b.NewPlan()
	b.EachMember(func(m *kmsg.JoinGroupResponseMember, _ *kmsg.ConsumerMemberMetadata) {
		for _, t := range tables {
			if t.owner == m.MemberID {
				for _, topic := range t.topics {
					for id := range topics[topic] {
						plan.AddPartition(m, topic, id)
					}
				}
			}
		}
	})
	plan.AdjustCooperative(b) // what another member still has is only taken away in this round
	holdBack(plan.AsMemberIDMap(), tables, members, topics)
	return plan
}

// table is a unit that moves as a whole.
type table struct {
	name   string
	topics []string
	weight int    // partitions
	owner  string // member id
}

func (a *affinity) tables(topics map[string]int32) []*table {
	byName := map[string]*table{}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		name := a.tableOf(topic)
		if byName[name] == nil {
			byName[name] = &table{name: name}
		}
		byName[name].topics = append(byName[name].topics, topic)
		byName[name].weight += int(topics[topic])
	}
	return slices.SortedFunc(maps.Values(byName), func(x, y *table) int {
		if x.weight != y.weight {
			return y.weight - x.weight
		}
		return strings.Compare(x.name, y.name)
	})
}

// member is one member's subscription and what it says it owns.
type member struct {
	id         string
	generation int32
	topics     map[string]bool
	owned      map[string][]int32
	load       int
}

func (m *member) canTake(t *table) bool {
	return !slices.ContainsFunc(t.topics, func(topic string) bool { return !m.topics[topic] })
}

func (m *member) owns(t *table) (partitions int) {
	for _, topic := range t.topics {
		partitions += len(m.owned[topic])
	}
	return partitions
}

func (*affinity) members(b *kgo.ConsumerBalancer) []*member {
	var ms []*member
	b.EachMember(func(j *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		m := &member{id: j.MemberID, generation: meta.Generation, topics: map[string]bool{}, owned: map[string][]int32{}}
		for _, topic := range meta.Topics {
			m.topics[topic] = true
		}
		for _, o := range meta.OwnedPartitions {
			m.owned[o.Topic] = o.Partitions
		}
		ms = append(ms, m)
	})
	slices.SortFunc(ms, func(x, y *member) int { return strings.Compare(x.id, y.id) })
	return ms
}

// share decides each table's owner: the one it has, then the least loaded, and
// then as few moves as level the loads.
func share(tables []*table, members []*member) {
	var free []*table
	for _, t := range tables {
		if m := currentOwner(t, members); m != nil {
			give(t, m)
		} else {
			free = append(free, t)
		}
	}
	for _, t := range free { // the heaviest first
		if m := leastLoaded(t, members); m != nil {
			give(t, m)
		}
	}
	for levelOne(tables, members) {
	}
}

func give(t *table, m *member) {
	t.owner = m.id
	m.load += t.weight
}

// currentOwner believes the most recent claim, then the larger one: a member
// that slept may still claim what it lost.
func currentOwner(t *table, members []*member) (owner *member) {
	for _, m := range members {
		if m.owns(t) == 0 || !m.canTake(t) {
			continue
		}
		if owner == nil || m.generation > owner.generation || m.generation == owner.generation && m.owns(t) > owner.owns(t) {
			owner = m
		}
	}
	return owner
}

func leastLoaded(t *table, members []*member) (least *member) {
	for _, m := range members {
		if m.canTake(t) && (least == nil || m.load < least.load) {
			least = m
		}
	}
	return least
}

// levelOne makes the one move that levels two members' loads best, if any
// does. Each move narrows the loads, so that they come to an end.
func levelOne(tables []*table, members []*member) bool {
	var best *table
	var from, to *member
	gain := 0
	for _, t := range tables {
		dst := leastLoaded(t, members)
		if dst == nil || dst.id == t.owner {
			continue
		}
		src := members[slices.IndexFunc(members, func(m *member) bool { return m.id == t.owner })]
		if g := min(src.load-dst.load-t.weight, t.weight); g > gain {
			best, from, to, gain = t, src, dst, g
		}
	}
	if best == nil {
		return false
	}
	from.load -= best.weight
	give(best, to)
	return true
}

// holdBack keeps a table from its new owner until all of it can be handed
// over: otherwise it would have two members for one round.
func holdBack(plan map[string]map[string][]int32, tables []*table, members []*member, topics map[string]int32) {
	for _, t := range tables {
		i := slices.IndexFunc(members, func(m *member) bool { return m.id == t.owner })
		if i < 0 {
			continue
		}
		complete := true
		for _, topic := range t.topics {
			complete = complete && len(plan[t.owner][topic]) == int(topics[topic])
		}
		if complete {
			continue
		}
		for _, topic := range t.topics {
			owned := members[i].owned[topic]
			keep := slices.DeleteFunc(plan[t.owner][topic], func(id int32) bool { return !slices.Contains(owned, id) })
			if len(keep) > 0 {
				plan[t.owner][topic] = keep
			} else {
				delete(plan[t.owner], topic)
			}
		}
	}
}
