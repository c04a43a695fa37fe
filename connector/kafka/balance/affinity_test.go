package balance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// assignment is partitions by topic.
type assignment map[string][]int32

func (a assignment) String() string {
	var parts []string
	for _, t := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, fmt.Sprint(t, a[t]))
	}
	return strings.Join(parts, " ")
}

// claimant is a member as it joins a round: what it says it owns, and since
// which generation.
type claimant struct {
	id         string
	generation int32
	owned      assignment
	topics     []string // nil: all
	stale      bool     // it was out of the group: what it owns is a mere claim
}

// prefix is the mapping of the tests: topic "orders.eu" feeds table "orders".
func prefix(topic string) string {
	table, _, _ := strings.Cut(topic, ".")
	return table
}

// round runs one round of the balancer as a group's leader does.
func round(t *testing.T, topics map[string]int32, members ...claimant) map[string]assignment {
	t.Helper()
	a := &affinity{tableOf: prefix}
	joined := make([]kmsg.JoinGroupResponseMember, len(members))
	for i, m := range members {
		if m.topics == nil {
			m.topics = slices.Sorted(maps.Keys(topics))
		}
		joined[i] = kmsg.JoinGroupResponseMember{
			MemberID: m.id, ProtocolMetadata: a.JoinGroupMetadata(m.topics, m.owned, m.generation),
		}
	}
	b, _, err := a.MemberBalancer(joined)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]assignment{}
	for _, sync := range a.Balance(b.(*kgo.ConsumerBalancer), topics).IntoSyncAssignment() {
		parsed, err := a.ParseSyncAssignment(sync.MemberAssignment)
		if err != nil {
			t.Fatal(err)
		}
		for _, ids := range parsed {
			slices.Sort(ids)
		}
		got[sync.MemberID] = parsed
	}
	return got
}

func expect(t *testing.T, got map[string]assignment, want map[string]string) {
	t.Helper()
	for id, w := range want {
		if g := got[id].String(); g != w {
			t.Errorf("%s: got %q, want %q", id, g, w)
		}
	}
}

func TestTablesStayWholeAndAreSharedByWeight(t *testing.T) {
	topics := map[string]int32{"customers.a": 6, "customers.b": 6, "orders": 4, "items": 4, "carts": 4}
	got := round(t, topics, claimant{id: "m1"}, claimant{id: "m2"})
	expect(t, got, map[string]string{
		"m1": "customers.a[0 1 2 3 4 5] customers.b[0 1 2 3 4 5]",
		"m2": "carts[0 1 2 3] items[0 1 2 3] orders[0 1 2 3]",
	})
}

func TestOwnersKeepTheirTablesWhenOneDies(t *testing.T) {
	topics := map[string]int32{"a": 3, "b": 3, "c": 3, "d": 3, "e": 3}
	all := []int32{0, 1, 2}
	got := round(t, topics,
		claimant{id: "m1", generation: 4, owned: assignment{"a": all, "d": all}},
		claimant{id: "m2", generation: 4, owned: assignment{"b": all, "e": all}})
	expect(t, got, map[string]string{
		"m1": "a[0 1 2] c[0 1 2] d[0 1 2]",
		"m2": "b[0 1 2] e[0 1 2]",
	})
}

func TestTableMovesWholeInTwoRounds(t *testing.T) {
	topics := map[string]int32{"a": 2, "b.x": 2, "b.y": 2}
	both := []int32{0, 1}
	got := round(t, topics,
		claimant{id: "m1", generation: 1, owned: assignment{"a": both, "b.x": both, "b.y": both}},
		claimant{id: "m2", generation: -1})
	kept := got["m1"].String()
	if kept != "b.x[0 1] b.y[0 1]" && kept != "a[0 1]" {
		t.Fatalf("m1 after the first round: got %q, want one whole table", kept)
	}
	expect(t, got, map[string]string{"m2": ""}) // not before m1 has given it up
	got = round(t, topics,
		claimant{id: "m1", generation: 2, owned: got["m1"]},
		claimant{id: "m2", generation: 2})
	expect(t, got, map[string]string{"m1": kept})
	if got["m2"].String() == "" {
		t.Error("m2 after the second round: got nothing, want the other table")
	}
}

func TestTableWaitsForItsLastPartition(t *testing.T) {
	// m1 still has one partition of b, which m2 mostly owns: until it is given
	// up, m2 gets no more of it than it has.
	topics := map[string]int32{"a": 1, "b": 3}
	got := round(t, topics,
		claimant{id: "m1", generation: 3, owned: assignment{"a": {0}, "b": {2}}},
		claimant{id: "m2", generation: 3, owned: assignment{"b": {0}}})
	for id, parts := range got {
		if slices.Contains(parts["b"], 1) {
			t.Errorf("the free partition of a divided table: got given to %s, want held back", id)
		}
	}
}

func TestNewPartitionsOfATableGoToItsOwner(t *testing.T) {
	got := round(t, map[string]int32{"a": 4, "b": 2},
		claimant{id: "m1", generation: 3, owned: assignment{"a": {0, 1}}},
		claimant{id: "m2", generation: 3, owned: assignment{"b": {0, 1}}})
	expect(t, got, map[string]string{"m1": "a[0 1 2 3]", "m2": "b[0 1]"})
}

func TestFresherClaimIsBelieved(t *testing.T) {
	// m1 slept through generations and still claims what m2 has had since.
	got := round(t, map[string]int32{"a": 2},
		claimant{id: "m1", generation: 3, owned: assignment{"a": {0, 1}}},
		claimant{id: "m2", generation: 7, owned: assignment{"a": {0, 1}}})
	expect(t, got, map[string]string{"m1": "", "m2": "a[0 1]"})
}

func TestTableGoesToAMemberThatReadsAllItsTopics(t *testing.T) {
	got := round(t, map[string]int32{"a.x": 2, "a.y": 2, "b": 1},
		claimant{id: "m1", topics: []string{"a.x", "b"}},
		claimant{id: "m2", topics: []string{"a.x", "a.y", "b"}})
	expect(t, got, map[string]string{"m1": "b[0]", "m2": "a.x[0 1] a.y[0 1]"})
}

func TestUnreadableMemberIsAnError(t *testing.T) {
	a := &affinity{tableOf: prefix}
	_, _, err := a.MemberBalancer([]kmsg.JoinGroupResponseMember{{MemberID: "m1", ProtocolMetadata: []byte{9}}})
	if err == nil {
		t.Error("metadata of one byte: got no error")
	}
}

// simulated is a group as the broker and its members make it: every member
// first gives up what it is not assigned any more, then takes what is new, and
// joins again if it gave something up.
type simulated struct {
	t          *testing.T
	topics     map[string]int32
	generation int32
	members    map[string]*claimant
	history    []string
}

// round lets all members but those that sleep take part in one round.
func (g *simulated) round(sleeping string) (moved bool) {
	g.generation++
	var present []claimant
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		if id != sleeping {
			present = append(present, *g.members[id])
		}
	}
	if len(present) == 0 {
		return false
	}
	got := round(g.t, g.topics, present...)
	g.history = append(g.history, fmt.Sprint(g.generation, " ", got))
	g.checkHandover(present, got)
	for id, parts := range got {
		m := g.members[id]
		for topic, ids := range m.owned {
			for _, p := range ids {
				moved = moved || !slices.Contains(parts[topic], p)
			}
		}
		m.owned, m.generation, m.stale = parts, g.generation, false
	}
	g.check(sleeping)
	return moved
}

// checkHandover fails if a member gets any of a table that another still has:
// members learn of a round at different times.
func (g *simulated) checkHandover(present []claimant, got map[string]assignment) {
	for _, m := range present {
		for topic, ids := range got[m.id] {
			gained := len(ids) > len(m.owned[topic]) || m.stale
			for _, other := range present {
				for owned := range other.owned {
					if gained && other.id != m.id && !other.stale && prefix(owned) == prefix(topic) {
						g.t.Fatalf("%s gets %s while %s has %s:\n%s", m.id, topic, other.id, owned, strings.Join(g.history, "\n"))
					}
				}
			}
		}
	}
}

// check fails if a table has two members. A sleeping one does not count: the
// group knows nothing of it any more, and its commits are fenced.
func (g *simulated) check(sleeping string) {
	owner := map[string]string{}
	for id, m := range g.members {
		if id == sleeping {
			continue
		}
		for topic, ids := range m.owned {
			table := prefix(topic)
			if other, taken := owner[table]; taken && other != id && len(ids) > 0 {
				g.t.Fatalf("table %s has two members, %s and %s:\n%s", table, id, other, strings.Join(g.history, "\n"))
			}
			owner[table] = id
		}
	}
}

// settled fails unless every table is whole with one member and no single move
// would level the loads further.
func (g *simulated) settled() {
	loads, weights, owners := map[string]int{}, map[string]int{}, map[string]string{}
	for id := range g.members {
		loads[id] = 0
	}
	for topic, n := range g.topics {
		found := 0
		for id, m := range g.members {
			if len(m.owned[topic]) > 0 {
				owners[prefix(topic)] = id
			}
			found += len(m.owned[topic])
			loads[id] += len(m.owned[topic])
		}
		if found != int(n) {
			g.t.Fatalf("topic %s: %d of %d partitions have a member:\n%s", topic, found, n, strings.Join(g.history, "\n"))
		}
		weights[prefix(topic)] += int(n)
	}
	least := slices.Min(slices.Collect(maps.Values(loads)))
	for table, id := range owners {
		if loads[id]-least > weights[table] {
			g.t.Fatalf("loads %v: moving %s would level them:\n%s", loads, table, strings.Join(g.history, "\n"))
		}
	}
}

func TestNoTableEverHasTwoMembers(t *testing.T) {
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		g := &simulated{t: t, topics: map[string]int32{}, members: map[string]*claimant{}}
		for table := range 1 + rnd.IntN(8) {
			for part := range 1 + rnd.IntN(3) {
				g.topics[fmt.Sprintf("t%d.%d", table, part)] = 1 + rnd.Int32N(12)
			}
		}
		g.history = append(g.history, fmt.Sprint("seed ", seed, " topics ", g.topics))
		for step := range 30 {
			sleeping := ""
			ids := slices.Sorted(maps.Keys(g.members))
			switch n := rnd.IntN(10); {
			case len(ids) == 0 || n < 4:
				id := fmt.Sprintf("m%d-%d", rnd.IntN(100), step)
				g.members[id] = &claimant{id: id, generation: -1}
			case n < 7: // dies or leaves
				delete(g.members, ids[rnd.IntN(len(ids))])
			case n < 8 && len(ids) > 1: // thrown out, comes back later with its old claims
				sleeping = ids[rnd.IntN(len(ids))]
			case n < 9: // a topic grows
				topics := slices.Sorted(maps.Keys(g.topics))
				g.topics[topics[rnd.IntN(len(topics))]]++
			}
			if sleeping != "" {
				for range 1 + rnd.IntN(4) {
					g.round(sleeping)
				}
				// Back under a new id: what it claims was read under the old one.
				m := g.members[sleeping]
				delete(g.members, sleeping)
				m.id += "'"
				m.stale = true
				g.members[m.id] = m
				g.generation++
				continue
			}
			if rnd.IntN(3) == 0 {
				g.round("") // and the next change comes before it has settled
				continue
			}
			rounds := 0
			for g.round("") {
				if rounds++; rounds > 6 {
					t.Fatalf("not settled after %d rounds:\n%s", rounds, strings.Join(g.history, "\n"))
				}
			}
			if len(g.members) > 0 {
				g.settled()
			}
		}
	}
}

func TestDeathMovesOnlyTheTablesOfTheDead(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		g := &simulated{t: t, topics: map[string]int32{}, members: map[string]*claimant{}}
		weight := 1 + rnd.Int32N(6) // tables of one weight: there is nothing to level by moving
		for table := range 6 + rnd.IntN(10) {
			g.topics[fmt.Sprintf("t%d", table)] = weight
		}
		for i := range 3 + rnd.IntN(3) {
			id := fmt.Sprint("m", i)
			g.members[id] = &claimant{id: id, generation: -1}
		}
		for g.round("") {
		}
		before := map[string]string{}
		for id, m := range g.members {
			before[id] = m.owned.String()
		}
		dead := slices.Sorted(maps.Keys(g.members))[rnd.IntN(len(g.members))]
		orphans := slices.Collect(maps.Keys(g.members[dead].owned))
		delete(g.members, dead)
		if g.round("") {
			t.Fatalf("seed %d: a survivor gave something up:\n%s", seed, strings.Join(g.history, "\n"))
		}
		for id, m := range g.members {
			kept := maps.Clone(m.owned)
			maps.DeleteFunc(kept, func(topic string, _ []int32) bool { return slices.Contains(orphans, topic) })
			if got := kept.String(); got != before[id] {
				t.Fatalf("seed %d: %s beside orphans: got %q, want %q", seed, id, got, before[id])
			}
		}
		g.settled()
	}
}
