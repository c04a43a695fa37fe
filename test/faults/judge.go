package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// judge counts broken promises. It is asked while the load is held and
// everything has caught up, and counts each only once.
type judge struct {
	w       *world
	wrong   map[name]bool                  // rows that were not right when last looked at
	last    map[name]call                  // last call of a row
	loaded  map[name]loading               // last import of a row
	rows    map[version]*sandbox.Execution // that loaded it last
	came    []call                         // triggers
	judged  int                            // executions
	over    map[string]int                 // slots, by table
	letters map[string]bool                // numbers of the dead letters
	told    map[string]letter              // by its number
	dead    int64                          // letters read
	history history
	say     func(format string, args ...any)
}

// version is one state of a row.
type version struct {
	name
	seq int
}

// letter is a dead letter, and what it says of itself.
type letter struct {
	row  name
	what string
}

type loading struct {
	seq       int
	execution string
}

func newJudge(w *world) *judge {
	return &judge{
		w: w, wrong: map[name]bool{}, last: map[name]call{}, loaded: map[name]loading{}, rows: map[version]*sandbox.Execution{},
		over: map[string]int{}, letters: map[string]bool{}, told: map[string]letter{}, history: history{},
		say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "  "+format+"\n", args...) },
	}
}

// look counts what went wrong since the last look.
func (j *judge) look(ctx context.Context) (f findings, err error) {
	f.lost = j.compare(func(t string) map[string]sandbox.Row { return j.w.service.Rows(t) })
	calls := j.w.calls.take()
	j.history.called(calls)
	calls = slices.DeleteFunc(calls, func(c call) bool { return !c.done() })
	f.reordered, f.strays = j.order(calls), j.strays(calls)
	for _, c := range calls {
		if c.etl != "" {
			j.came = append(j.came, c)
		}
	}
	executions := j.w.service.Executions()[j.judged:]
	j.judged += len(executions)
	slices.SortFunc(executions, byApplication)
	for _, e := range executions {
		rows, err := j.rowsOf(ctx, e)
		if err != nil {
			return f, fmt.Errorf("rows of execution %s: %w", e.ID, err)
		}
		j.history.loaded(e, rows)
		f.add(j.imported(e, rows))
	}
	for row := range j.wrong {
		j.history.tell(row, j.say)
	}
	over, err := j.slots(ctx)
	if err != nil {
		return f, err
	}
	f.slotsOver = over
	f.add(j.w.seen)
	j.w.seen = findings{}
	letters, err := j.readLetters(ctx)
	if err != nil {
		return f, err
	}
	lost, both := j.countLetters(letters)
	f.lost, f.both = f.lost+lost, both
	return f, nil
}

// passOver leaves out what a sink of its own has loaded: it was judged by itself.
func (j *judge) passOver() { j.judged = len(j.w.service.Executions()) }

// byApplication is the order in which executions changed their tables.
func byApplication(a, b sandbox.Execution) int {
	if len(a.Loads) == 0 || len(b.Loads) == 0 {
		return len(a.Loads) - len(b.Loads) // it failed, which is reported
	}
	return cmp.Compare(a.Loads[0].Seq, b.Loads[0].Seq)
}

// compare counts the rows that are not what the model says.
func (j *judge) compare(have func(table string) map[string]sandbox.Row) (lost int) {
	g := j.w.load.generator
	wrong := map[name]bool{}
	note := func(id name, got, want any) {
		wrong[id] = true
		if !j.wrong[id] {
			lost++
			j.say("lost: %s %s: got %v, want %v (partition %d, seq %d)", id.table, id.key, got, want, j.w.load.home[id], g.seq[id])
		}
	}
	for _, t := range tables {
		rows := have(t.name)
		for id, want := range g.rows {
			if id.table != t.name {
				continue
			}
			got, there := rows[id.key]
			if !there {
				note(id, "no row", want)
				continue
			}
			for column, v := range want {
				if got.Text(column) != v {
					note(id, got.Values, want)
					break
				}
			}
		}
		for key, got := range rows {
			if id := (name{t.name, key}); g.rows[id] == nil {
				note(id, got.Values, "no row")
			}
		}
	}
	j.wrong = wrong
	return lost
}

// order counts calls that carried an older state of their row than the call
// before. A member that was assigned the row's partition in between reads from
// the last commit, and may.
func (j *judge) order(list []call) (reordered int) {
	g := j.w.load.generator
	for _, c := range list {
		if c.etl != "" || g.both(c.row.table) {
			continue // the batch lane's owner sends a row's newest state again, maybe before the other lane has
		}
		if c.seq == 0 {
			c.seq = g.deletes[c.row]
		}
		before, known := j.last[c.row]
		j.last[c.row] = c
		if !known || c.seq >= before.seq ||
			j.w.diary.assignedBetween(c.member, c.row.table, j.w.load.home[c.row], before.at, c.at) {
			continue
		}
		reordered++
		j.say("reordered: %s %s: seq %d by %s at %s, after %d by %s at %s", c.row.table, c.row.key, c.seq, c.member,
			c.at.Format(millis), before.seq, before.member, before.at.Format(millis))
	}
	return reordered
}

const millis = "15:04:05.000"

// strays counts what a member sent that the group had given up, before it was
// assigned anything again.
func (j *judge) strays(list []call) (n int) {
	for _, c := range list {
		groups := []string{immediateGroup}
		switch {
		case c.etl != "":
			groups = []string{batchGroup}
		case j.w.load.generator.both(c.row.table):
			groups = append(groups, batchGroup) // whose owner settles it by calls
		}
		for _, a := range j.w.absences {
			if a.member != c.member || !c.at.After(a.since) || slices.ContainsFunc(groups, func(group string) bool {
				return j.w.diary.rejoined(c.member, group, a.since, c.at)
			}) {
				continue
			}
			n++
			j.say("stray: %s sent %v at %s, given up by the group at %s", c.member, c.what(), c.at.Format(millis), a.since.Format(millis))
			break
		}
	}
	return n
}

// imported counts an import that repeats one before it, and the rows in it that
// are older than what was loaded before. Rows in both lanes do not count: what a
// call cannot say is settled by a row.
func (j *judge) imported(e sandbox.Execution, rows []version) (f findings) {
	if at := j.w.reset; !at.IsZero() && e.Accepted.After(at) { // what was loaded before is read again
		j.w.reset = time.Time{}
		clear(j.loaded)
		clear(j.rows)
	}
	twice := map[string]*sandbox.Execution{}
	for _, v := range rows {
		if j.w.load.generator.both(v.table) {
			continue
		}
		before, known := j.loaded[v.name]
		if known && v.seq < before.seq {
			f.reordered++
			j.say("reordered: %s %s: seq %d by execution %s, after %d by %s", v.table, v.key, v.seq, e.ID, before.seq, before.execution)
		}
		j.loaded[v.name] = loading{v.seq, e.ID}
		if first, again := j.rows[v]; again {
			twice[first.ID] = first
		}
		j.rows[v] = &e
	}
	for _, first := range twice {
		switch {
		case !j.w.diary.has(first.ID):
			f.cut++
			j.say("cut: execution %s (%s, accepted %s) has rows of %s, which was cut off before it was on record", e.ID, e.File, e.Accepted.Format(millis), first.ID)
		case j.begun(e).Before(first.Accepted):
			f.cut++
			j.say("cut: execution %s (%s, accepted %s) has rows of %s, which was accepted while the request for it was on its way", e.ID, e.File, e.Accepted.Format(millis), first.ID)
		default:
			f.repeated++
			j.say("repeated: execution %s (%s, accepted %s) has rows of %s, which was on record", e.ID, e.File, e.Accepted.Format(millis), first.ID)
		}
	}
	return f
}

// begun is when the request for the execution began to come. That of a member that is frozen
// amid it is accepted when the member goes on.
func (j *judge) begun(e sandbox.Execution) (at time.Time) {
	for _, c := range j.came {
		if c.etl == e.ETL && !c.at.After(e.Accepted) && !c.answered.Before(e.Accepted) && c.at.After(at) {
			at = c.at
		}
	}
	if at.IsZero() {
		return e.Accepted
	}
	return at
}

// uncounted is how many imports the ledger has missed since the last look.
func (j *judge) uncounted(table string, accepted, counted int) int {
	missed := max(0, accepted-counted)
	more := max(0, missed-j.over[table])
	if more > 0 {
		j.say("slots over: table %s had %d imports today, the ledger has %d", table, accepted, counted)
	}
	j.over[table] = missed
	return more
}

// countLetters counts broken events without a dead letter and dead letters of events
// that nothing was wrong with. A patch that finds nothing may be one, or be void.
func (j *judge) countLetters(numbers []string) (lost, both int) {
	g := j.w.load.generator
	for _, number := range numbers {
		if !g.broken[number] && !g.void[number] && !j.letters[number] {
			both++
			j.say("both: event %s is a dead letter, with nothing wrong about it: %s", number, j.told[number].what)
			j.history.tell(j.told[number].row, j.say)
		}
		j.letters[number] = true
	}
	for number := range g.broken {
		if !j.letters[number] {
			lost++
			j.letters[number] = true // counted
			j.say("lost: broken event %s has no dead letter", number)
		}
	}
	return lost, both
}
