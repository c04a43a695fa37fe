//go:build simulation

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// place is where a record is.
type place struct {
	topic     string
	recreated int // how often the topic had been created again
	partition int32
	offset    int64
}

// letters are dead letters by their records' places, with their reason codes.
type letters map[place]string

// readLetters tells the dead letters' places; those without one are told apart, but for those of an
// owner that was killed when a record was confirmed, and not yet the whole import: the next one
// finds its row in error once more, and no record.
func readLetters(records []*kgo.Record, tables []*table) (found letters, strange []string) {
	found = letters{}
	repeated := func(key string) bool {
		return slices.ContainsFunc(tables, func(t *table) bool {
			k := t.keys[key]
			return k != nil && (k.besideRefused() || slices.ContainsFunc(k.events, func(e *event) bool { return strings.HasPrefix(found[e.at], "import_row: ") }))
		})
	}
	for i, r := range records {
		says := map[string]string{}
		for _, h := range r.Headers {
			says[strings.TrimPrefix(h.Key, "__connect.errors.")] = string(h.Value)
		}
		partition, err := strconv.ParseInt(says["partition"], 10, 32)
		offset, err2 := strconv.ParseInt(says["offset"], 10, 64)
		if err != nil || err2 != nil {
			if repeated(string(r.Key)) {
				continue
			}
			strange = append(strange, fmt.Sprintf("dead letter of no record: %v", says))
			continue
		}
		recreated := 0
		for _, t := range tables {
			if t.topic == says["topic"] {
				recreated, _ = slices.BinarySearch(t.letters, i+1)
			}
		}
		found[place{says["topic"], recreated, int32(partition), offset}] = says["exception.class.name"] + ": " + says["exception.message"]
	}
	return found, strange
}

// judge compares each key's row and dead letters with its events, applied alone and in
// order.
func judge(t *table, rows map[string]sandbox.Row, dead letters) (wrong []string) {
	for _, name := range t.names {
		k := t.keys[name]
		want, said := k.judge(t, name, dead)
		wrong = append(wrong, said...)
		row, there := rows[name]
		if k.besideRefused() && slices.ContainsFunc(k.possible(dead), func(may map[string]string) bool { return sameRow(may, row, there) }) {
			continue
		}
		switch {
		case want == nil && there:
			wrong = append(wrong, fmt.Sprintf("%s %s: got %v, want no row\n%s", t.name, name, row.Values, k.history(t, dead)))
		case want != nil && !there:
			wrong = append(wrong, fmt.Sprintf("%s %s: got no row, want %v\n%s", t.name, name, want, k.history(t, dead)))
		case want != nil:
			for _, column := range []string{"seq", "note"} {
				if got := row.Text(column); got != want[column] {
					wrong = append(wrong, fmt.Sprintf("%s %s %s: got %q, want %q\n%s", t.name, name, column, got, want[column], k.history(t, dead)))
				}
			}
		}
	}
	for name := range rows {
		if t.keys[name] == nil && !strings.HasPrefix(name, t.lost()) {
			wrong = append(wrong, fmt.Sprintf("%s %s: a row that no event made", t.name, name))
		}
	}
	return wrong
}

// mayRefuse reports whether the event may be a dead letter though nothing is wrong with it:
// a create that was sent twice. Where it cannot be told whose row it met, as profiles
// cannot be read, the dead letter says so.
func (t *table) mayRefuse(e *event, reason string) bool {
	return e.op == "create" && (t.repeated || !t.custom() && strings.Contains(reason, "it may already be in the table"))
}

// judge is what the key's row must be, and which of its events ended in the wrong place.
func (k *key) judge(t *table, name string, dead letters) (row map[string]string, wrong []string) {
	beside := k.besideRefused()
	for i, e := range k.events {
		reason, lettered := dead[e.at]
		after, refused := e.apply(row)
		switch {
		case lettered && !refused && beside:
			continue
		case !lettered && e.refused && slices.ContainsFunc(k.events[i+1:], func(e *event) bool { return e.op == "delete" || e.values["note"] != "" }):
			// What is newer has taken its place in the file.
		case lettered && !refused && !t.mayRefuse(e, reason):
			wrong = append(wrong, fmt.Sprintf("%s %s: a dead letter of offset %d (%s), with which nothing is wrong\n%s",
				t.name, name, e.at.offset, reason, k.history(t, dead)))
		case !lettered && refused && (e.broken || !slices.ContainsFunc(k.events[i+1:], voids)):
			wrong = append(wrong, fmt.Sprintf("%s %s: offset %d cannot be applied, and is no dead letter\n%s",
				t.name, name, e.at.offset, k.history(t, dead)))
		}
		row = after
	}
	return row, wrong
}

// besideRefused reports whether the service refuses an event of the key. Others may be dead letters
// with it: those that are in one row with it, and those that were left out in its favour.
func (k *key) besideRefused() bool {
	return slices.ContainsFunc(k.events, func(e *event) bool { return e.refused })
}

// possible are the rows that such a key may have: what is loaded, and read again, may become one
// row with what is refused, and so be a dead letter, too.
func (k *key) possible(dead letters) (rows []map[string]string) {
	rows = []map[string]string{nil}
	for _, e := range k.events {
		_, lettered := dead[e.at]
		known := map[string]bool{}
		var next []map[string]string
		add := func(row map[string]string) {
			if says := fmt.Sprint(row == nil, row); !known[says] {
				known[says], next = true, append(next, row)
			}
		}
		for _, row := range rows {
			after, refused := e.apply(row)
			if lettered {
				add(row)
			}
			if !lettered || !refused {
				add(after)
			}
		}
		rows = next
	}
	return rows
}

func sameRow(want map[string]string, row sandbox.Row, there bool) bool {
	return there == (want != nil) && (want == nil || row.Text("seq") == want["seq"] && row.Text("note") == want["note"])
}

// voids reports whether the event leaves nothing of what was before.
func voids(e *event) bool { return !e.broken && (e.op == "upsert" || e.op == "delete") }

func (k *key) history(t *table, dead letters) string {
	var lines strings.Builder
	for _, e := range k.events[max(0, len(k.events)-8):] {
		fmt.Fprintf(&lines, "      %s/%d offset %d, lane %s: %s %v", t.topic, k.partition, e.at.offset, e.lane, e.op, e.values)
		if reason, is := dead[e.at]; is {
			lines.WriteString(", dead letter: " + reason)
		}
		lines.WriteByte('\n')
	}
	return lines.String()
}

// judgeSlots looks for days on which a table had more imports than slots.
func judgeSlots(executions []sandbox.Execution, zone *time.Location, tablesOf map[string][]string, perDay map[string]int) (wrong []string) {
	used := map[string]int{}
	for _, x := range executions {
		for _, table := range tablesOf[x.ETL] {
			used[table+" on "+x.Accepted.In(zone).Format(time.DateOnly)]++
		}
	}
	for _, day := range slices.Sorted(maps.Keys(used)) {
		table, _, _ := strings.Cut(day, " on ")
		if used[day] > perDay[table] {
			wrong = append(wrong, fmt.Sprintf("slots: %s had %d imports, want at most %d", day, used[day], perDay[table]))
		}
	}
	return wrong
}

// judgeFiles looks for files with more rows than a file may have, and for those without
// any, which take a slot for nothing.
func judgeFiles(executions []sandbox.Execution, maxFile int) (wrong []string) {
	for _, x := range executions {
		switch rows := x.Results.Read; {
		case maxFile > 0 && rows > int64(maxFile):
			wrong = append(wrong, fmt.Sprintf("%s of %s: got %d rows, want at most %d", x.File, x.Accepted.Format(millis), rows, maxFile))
		case x.Status == sandbox.Finished && rows == 0:
			wrong = append(wrong, fmt.Sprintf("%s of %s: got no row, and it took a slot", x.File, x.Accepted.Format(millis)))
		}
	}
	return wrong
}
