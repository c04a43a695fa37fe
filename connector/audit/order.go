package audit

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// judgeKeys judges the order in which the writes of one key of one partition arrived: calls in the
// order of their answers, rows in the order in which their imports began. Nothing is said of
// what was merged or made void, which went with a newer write, at no time of its own; of dead
// letters, which change nothing; and of writes in both lanes, which the batch lane reconciles.
func (a *audit) judgeKeys(context.Context) error {
	all, err := a.keys.sorted()
	if err != nil {
		return err
	}
	var latest entry // of the key's records so far: that whose write arrived last
	var some []entry
	for e := all.peek(); e != nil; e = all.peek() {
		next := *e
		if !sameKey(&latest, &next) {
			if latest.key != next.key || latest.keyID != next.keyID {
				a.report.Keys++
			}
			latest = entry{key: next.key, keyID: next.keyID, partition: next.partition, lane: next.lane, part: -1}
		}
		if some, err = all.group(some, func(x, y *entry) bool { return sameKey(x, y) && x.offset == y.offset }); err != nil {
			return err
		}
		a.judgeOrder(&latest, some)
	}
	return nil
}

// judgeOrder judges the receipts of a key's next record.
func (a *audit) judgeOrder(latest *entry, some []entry) {
	p, offset := a.parts[some[0].partition], some[0].offset
	if !p.settled(offset) || !p.oneRoute(offset) {
		return // it may be written again
	}
	if latest.part >= 0 && !slices.ContainsFunc(some, func(r entry) bool { return !later(latest, &r) }) {
		a.gap(p, Order, latest.offset, "of two writes of one key in the %s lane its own arrived last, at %s, behind that of offset %d at %s",
			latest.lane, stamp(arrived(latest)), offset, stamp(arrived(&some[len(some)-1])))
	}
	for i := range some {
		if some[i].arrives() && (latest.part < 0 || byArrival(latest, &some[i])) {
			*latest = some[i]
		}
	}
}

func sameKey(a, b *entry) bool {
	return a.key == b.key && a.keyID == b.keyID && a.partition == b.partition && a.lane == b.lane
}

// arrives reports whether the receipt says when the write was in the table.
func (e *entry) arrives() bool {
	return e.outcome == called || e.outcome == absent || e.outcome == imported && e.started != 0
}

// arrived is when a write was in the table: by its answer, or by its file.
func arrived(e *entry) time.Time {
	if e.outcome == imported {
		return millis(e.started)
	}
	return millis(e.ended)
}

// byArrival reports whether b arrived after a, as far as the times say.
func byArrival(a, b *entry) bool {
	if a.assigned != b.assigned {
		return a.assigned < b.assigned
	}
	return !arrived(b).Before(arrived(a))
}

// later reports whether a certainly arrived after b. In one assignment one member's clock
// says so. Of two assignments the clocks of two members may differ, and what a member wrote
// that had lost the partition may lie late in the topic: both have to say so.
func later(a, b *entry) bool {
	if a.assigned == b.assigned {
		return b.arrives() && arrived(a).After(arrived(b))
	}
	return a.assigned > b.assigned && a.from == b.from && a.at > b.at
}

// judgeSlots judges how many imports each table had on each day: as receipts name them,
// and as the ledger counts them, which is more, as it counts tries.
func (a *audit) judgeSlots() {
	seen := map[string]bool{}
	for _, mapping := range slices.Sorted(maps.Keys(a.Tables)) {
		t := a.Tables[mapping]
		if seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		a.report.Imports += int64(len(a.imports[t.Name]))
		a.judgeTable(&t)
	}
}

func (a *audit) judgeTable(t *Table) {
	home := &part{Partition: &Partition{Topic: t.Home}}
	if number, ok := a.place(t.Home, 0); ok {
		home = a.parts[number]
	}
	loaded := map[string]int{} // by day
	early := map[string]int{}  // of these, that began before the ledger was read
	for _, ms := range a.imports[t.Name] {
		if ms == 0 {
			continue
		}
		day := dayOf(millis(ms), t.Zone)
		loaded[day]++
		if millis(ms).Before(a.Read.Add(-clockSlack)) {
			early[day]++
		}
	}
	offset := int64(0)
	if c := home.Commits[Batch]; c != nil {
		offset = c.Offset
	}
	for _, day := range slices.Sorted(maps.Keys(loaded)) {
		if loaded[day] > t.PerDay {
			a.gap(home, TooManySlots, offset, "table %s had %d imports on %s, as receipts say, and %d slots", t.Name, loaded[day], day, t.PerDay)
		}
	}
	if home.ledgers[Batch] == nil {
		return
	}
	used := a.usedSlots(t)
	for _, day := range slices.Sorted(maps.Keys(used)) {
		if used[day] > t.PerDay {
			a.gap(home, TooManySlots, offset, "the ledger counts %d imports of table %s on %s, which has %d slots", used[day], t.Name, day, t.PerDay)
		}
	}
	today := dayOf(a.Read, t.Zone)
	if early[today] > used[today] {
		a.gap(home, SlotForgotten, offset, "receipts name %d imports of table %s of today (%s), and the ledger counts %d", early[today], t.Name, today, used[today])
	}
}

// usedSlots is how many imports of the table the ledgers count, by day. Where the mapping had
// another first topic before, one began as a copy of the other.
func (a *audit) usedSlots(t *Table) map[string]int {
	most := map[string]int{}
	for _, p := range a.parts {
		l := p.ledgers[Batch]
		if l == nil || p.ID != 0 {
			continue
		}
		used := map[string]int{}
		for _, name := range []string{t.Name, t.Name[strings.IndexByte(t.Name, '/')+1:]} { // the latter by a former version
			for _, at := range l.slots[name] {
				used[dayOf(time.Unix(at, 0), t.Zone)]++
			}
		}
		for day, n := range used {
			most[day] = max(most[day], n)
		}
	}
	return most
}

func dayOf(at time.Time, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return at.In(zone).Format(time.DateOnly)
}
