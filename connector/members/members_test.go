package members

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/schemas"
)

func TestWhoMayBeAliveIsNotToldDead(t *testing.T) {
	t.Parallel()
	const lane, session = schemas.Batch, 45 * time.Second
	has := map[string][]int32{"crm": {0, 3}}
	group := func(partitions map[string][]int32) []kafka.GroupMember {
		return []kafka.GroupMember{{ID: "own"}, {ID: "b-1", Partitions: partitions}}
	}
	answers, silence := map[string]string{"b-1": "feedsink-b", "own": "feedsink-a"}, map[string]string{}
	for name, c := range map[string]struct {
		group    []kafka.GroupMember // from the tenth second on
		answered map[string]string   // before it, and
		then     map[string]string   // from it on
		want     int                 // the second from which on it is told; 0: never
	}{
		"answers":                         {group(has), answers, answers, 0},
		"never answered":                  {group(has), silence, silence, 0},
		"has left":                        {group(has)[:1], answers, silence, 0},
		"has nothing":                     {group(map[string][]int32{}), answers, silence, 0},
		"came back with another id":       {[]kafka.GroupMember{{ID: "own"}, {ID: "b-2", Partitions: has}}, answers, map[string]string{"b-2": "feedsink-b"}, 0},
		"silent longer than its session":  {group(has), answers, silence, 14},
		"silent while the group is asked": {group(nil), answers, silence, 14},
		"begun anew, its former id stays": {append(group(has), kafka.GroupMember{ID: "b-2"}), answers, map[string]string{"b-2": "feedsink-b"}, 14},
	} {
		t.Run(name, func(t *testing.T) {
			o := New(session, nil, slog.New(slog.DiscardHandler))
			start := time.Now()
			got := 0
			for second := range 60 {
				now := start.Add(time.Duration(second) * time.Second)
				switch {
				case second < 10:
					o.note(lane, group(has), "own", c.answered, now)
				default:
					o.note(lane, c.group, "own", c.then, now)
				}
				told := o.Waits(lane, now)
				if len(told) > 0 && got == 0 {
					got = second
				}
				if (len(told) > 0) != (got > 0) || len(told) > 0 && (told[0].Member != "feedsink-b" || !strings.Contains(told[0].Why, "partitions [0 3] of topic crm") || !told[0].Until.Equal(start.Add(9*time.Second+session))) {
					t.Fatalf("got %+v, want what it had and its session's end, all the while", told)
				}
			}
			if got != c.want {
				t.Errorf("told from second %d on, want %d", got, c.want)
			}
			if told := o.Waits(lane, start.Add(9*time.Second+session+sessionSlack)); len(told) > 0 {
				t.Errorf("after its session and more: got %+v, want nothing: the group has heard of it meanwhile", told)
			}
		})
	}
}

func TestOwnerIsToldByNameWhereItHasAnswered(t *testing.T) {
	t.Parallel()
	o, now := New(time.Minute, nil, slog.New(slog.DiscardHandler)), time.Now()
	crm, shop := map[string][]int32{"crm": {0, 3}}, map[string][]int32{"shop": {0}, "crm": {1}}
	group := []kafka.GroupMember{{ID: "own", Host: "10.0.0.1", Partitions: map[string][]int32{"own": {0}}}, {ID: "b", Host: "10.0.0.2", Partitions: crm}, {ID: "c", Host: "10.0.0.3", Partitions: shop}}
	o.note(schemas.Batch, group, "own", map[string]string{"b": "feedsink-b"}, now)
	expect := func(lane schemas.Lane, topic, want string) {
		t.Helper()
		if got := o.Owner(topic, schemas.Immediate, lane); got != want {
			t.Errorf("%s: got %q, want %q", topic, got, want)
		}
	}
	expect(schemas.Batch, "crm", "feedsink-b at 10.0.0.2")
	expect(schemas.Batch, "shop", "10.0.0.3") // it may lie behind a network policy
	expect(schemas.Batch, "own", "")
	expect(schemas.Immediate, "crm", "")
	for i := range group {
		group[i].Partitions = nil
	}
	o.note(schemas.Batch, group, "own", map[string]string{}, now)
	expect(schemas.Batch, "crm", "feedsink-b at 10.0.0.2") // while the group shares its partitions
	o.note(schemas.Batch, group[:1], "own", map[string]string{}, now)
	expect(schemas.Batch, "crm", "")
}
