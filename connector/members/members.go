// Package members tells which partitions no member reads since their owner has died.
//
// A member that is killed does not leave its groups. Until its session ends no member reads its
// partitions, and no broker tells of it. So members ask each other who they are: one that
// has answered once, does so no more and is still in its group is told of. One that has never
// answered is not: a network policy may lie in between.
package members

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/waits"
	"github.com/feedsink/feedsink/schemas"
)

const (
	// AskEvery is how often the other members are asked.
	AskEvery = 3 * time.Second
	// silentAfter is how long a member that is busy may take to answer.
	silentAfter = 5 * time.Second
	// sessionSlack is by how much a session may outlast what is known of its end. A member
	// that is in its group after that is alive, and cannot be reached any more.
	sessionSlack = 10 * time.Second
)

// Others are the other members of the lanes' groups. Its methods may be called from any
// goroutine.
type Others struct {
	session time.Duration
	sources map[schemas.Lane]*kafka.Source
	log     *slog.Logger

	mu     sync.Mutex
	groups map[schemas.Lane][]kafka.GroupMember // as they were last
	ids    map[schemas.Lane]map[string]other    // by their ids in the group
}

// New knows nothing yet. sources are those of this process, which are there before Run.
func New(session time.Duration, sources map[schemas.Lane]*kafka.Source, log *slog.Logger) *Others {
	return &Others{session: session, sources: sources, log: log, groups: map[schemas.Lane][]kafka.GroupMember{}, ids: map[schemas.Lane]map[string]other{}}
}

// other is a member that has answered.
type other struct {
	name       string
	answered   time.Time
	silent     time.Duration // when it was asked last
	static     bool
	partitions map[string][]int32
}

// note takes in the members of a lane's group, and the names of those that have answered by
// their ids.
func (o *Others) note(lane schemas.Lane, group []kafka.GroupMember, own string, answered map[string]string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, left := o.ids[lane], map[string]other{}
	for _, m := range group {
		known, heard := before[m.ID]
		if name, ok := answered[m.ID]; ok {
			known.name, known.answered, heard = name, now, true
		}
		if !heard || m.ID == own {
			continue
		}
		known.silent, known.static = now.Sub(known.answered), m.Static
		if m.Partitions != nil && !maps.EqualFunc(m.Partitions, known.partitions, slices.Equal) { // nil: it has what it had
			known.partitions = m.Partitions
			o.log.Debug("another member of the group answers", "lane", lane.String(), "member", known.name, "partitions", known.partitions)
		}
		left[m.ID] = known
	}
	o.ids[lane] = left
	o.groups[lane] = slices.DeleteFunc(slices.Clone(group), func(m kafka.GroupMember) bool { return m.ID == own })
}

// Owner is who has the topic's first partition in one of the lanes, as a person finds it; "":
// that is not known, or this member has it.
func (o *Others) Owner(topic string, lanes ...schemas.Lane) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, lane := range lanes {
		for _, m := range o.groups[lane] {
			known := o.ids[lane][m.ID]
			if m.Partitions == nil { // it has what it had
				m.Partitions = known.partitions
			}
			if !slices.Contains(m.Partitions[topic], 0) {
				continue
			}
			if known.name == "" || known.name == m.Host {
				return m.Host
			}
			return known.name + " at " + m.Host
		}
	}
	return ""
}

// Waits are the partitions of members that do not answer, once for each member and topic.
func (o *Others) Waits(lane schemas.Lane, now time.Time) (all []observe.Wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(o.ids[lane])) {
		m := o.ids[lane][id]
		if m.silent < silentAfter || now.Sub(m.answered) >= o.session+sessionSlack {
			continue
		}
		end := "its session ends"
		if m.static {
			end += ", or the next process with its kafka.instanceId has joined"
		}
		for _, topic := range slices.Sorted(maps.Keys(m.partitions)) {
			all = append(all, observe.Wait{
				Cause: waits.DeadMember, Member: m.name, Topic: topic, Until: m.answered.Add(o.session),
				Why: fmt.Sprintf("member %s does not answer; if it has died, no member reads its partitions %v of topic %s until %s", m.name, m.partitions[topic], topic, end),
			})
		}
	}
	return all
}

// Run asks the other members that often until ctx ends.
func (o *Others) Run(ctx context.Context, every time.Duration, peers *admin.Peers) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		o.ask(ctx, peers)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (o *Others) ask(ctx context.Context, peers *admin.Peers) {
	now := time.Now()
	groups, hosts := map[schemas.Lane][]kafka.GroupMember{}, []string{}
	for lane, source := range o.sources {
		asking, cancel := context.WithTimeout(ctx, AskEvery)
		group, err := source.GroupMembers(asking)
		cancel()
		if err != nil {
			continue // who cannot ask the brokers says so elsewhere, and knows nothing of others
		}
		groups[lane] = group
		if len(group) < 2 {
			continue
		}
		for _, m := range group {
			hosts = append(hosts, m.Host)
		}
	}
	answered := map[string]string{}
	if len(hosts) > 0 {
		for _, m := range peers.Ask(ctx, hosts) {
			for _, id := range m.Groups {
				answered[id] = m.Member
			}
		}
	}
	for lane, group := range groups {
		o.note(lane, group, o.sources[lane].MemberID(), answered, now)
	}
}
