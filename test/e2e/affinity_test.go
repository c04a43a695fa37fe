package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/observe"
)

func TestKilledMembersTablesMoveAloneAndItsImportsAreAdopted(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.service.Hold() // imports take as long as the test wants
	m.produceAll(1)
	m.until("an import of each table is on record", func() bool {
		n := 0
		for _, mate := range m.members {
			n += strings.Count(mate.out.String(), "execution is on record")
		}
		return n == len(teamTables)
	})
	for _, mate := range m.members {
		m.until("it knows who has the others' tables", func() bool {
			unknown := m.tablesOf(mate, func(i observe.MappingImports) bool { return !i.Owned && i.Owner == "" })
			return len(unknown) == 0
		})
	}
	dead, survivors := m.members[1], []*teammate{m.members[0], m.members[2]}
	orphans := m.owned(dead)
	kept := map[*teammate][]string{}
	for _, mate := range survivors {
		kept[mate] = m.owned(mate)
	}
	if err := dead.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = dead.wait() // it was killed
	killed := time.Now()
	m.until("the orphaned imports are adopted", func() bool {
		n := 0
		for _, mate := range survivors {
			n += strings.Count(mate.out.String(), "adopting the import of a former owner")
		}
		return n == len(orphans)
	})
	m.service.Release()
	m.allLoaded(1)
	if got := len(m.service.Executions()); got != len(teamTables) {
		t.Errorf("imports: got %d, want one of each of the %d tables", got, len(teamTables))
	}
	for _, mate := range survivors {
		for _, l := range mate.said() {
			if l.Time.After(killed) && strings.HasPrefix(l.Msg, "partitions ") && !slices.Contains(orphans, strings.TrimPrefix(l.Topic, m.prefix)) {
				t.Errorf("%s after the kill: %s: %s, want nothing but %v to move", mate.name, l.Msg, l.Topic, orphans)
			}
		}
		for _, table := range kept[mate] {
			if !slices.Contains(m.owned(mate), table) {
				t.Errorf("%s: has %v, want %v and what was orphaned", mate.name, m.owned(mate), kept[mate])
			}
		}
	}
	m.neverTwoOwners(map[*teammate]time.Time{dead: killed})
}

func TestFrozenMemberThatWakesTriggersNothing(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.produceAll(1)
	m.allLoaded(1)
	frozen := m.members[1]
	orphans := m.owned(frozen)
	m.produceAll(2)
	// It has rows, and its files are due by the time it wakes.
	m.until("the member fills a file for each of its tables", func() bool { return slices.Equal(m.filling(frozen), orphans) })
	if err := frozen.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped, before := time.Now(), frozen.triggers.Load()
	m.allLoaded(2) // by the others
	if err := frozen.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	m.until("the member has noticed, and is in the group again", func() bool {
		woken := slices.ContainsFunc(frozen.said(), func(l line) bool { return strings.HasPrefix(l.Msg, "partitions lost") })
		return woken && len(m.owned(frozen)) > 0
	})
	if got := frozen.triggers.Load() - before; got != 0 {
		t.Errorf("triggers of the woken member: got %d, want none", got)
	}
	if got, want := len(m.service.Executions()), 2*len(teamTables); got != want {
		t.Errorf("imports: got %d, want %d: one of each table and file", got, want)
	}
	m.neverTwoOwners(map[*teammate]time.Time{frozen: stopped}) // it did nothing from then on
}
