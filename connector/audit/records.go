package audit

import (
	"context"
	"fmt"
	"slices"
)

// judgeRecords goes through the records of each partition, and through the receipts and dead
// letters that are about them.
func (a *audit) judgeRecords(ctx context.Context) error {
	all, err := a.records.sorted()
	if err != nil {
		return err
	}
	w := &walk{audit: a, all: all}
	for i, p := range a.parts {
		w.part, w.number, w.start, w.certain, w.have = p, int32(i), a.begin(p), p.Start, 0
		if err := w.partition(ctx); err != nil {
			return err
		}
	}
	return nil
}

// walk goes through a partition.
type walk struct {
	*audit
	*part
	all     *stream
	number  int32
	start   start
	certain int64 // below, what Records did not show is not there
	have    int64 // offsets below the log's start that are not confirmed, and have all of their receipts
	some    []entry
	letters []entry
}

func (w *walk) partition(ctx context.Context) error {
	end := w.end()
	w.judged.To, w.judged.Waiting = end, w.End-end
	if w.start.since != notKnown && w.start.since > 0 {
		w.judged.Since = millis(w.start.since)
	}
	if end > w.Start {
		certain, err := w.Records(ctx, w.Partition, w.Start, end, w.record)
		if err != nil {
			return fmt.Errorf("offsets of %s: %w", w.Partition, err)
		}
		w.certain = certain
	}
	for e := w.all.peek(); e != nil && e.partition == w.number; e = w.all.peek() {
		if err := w.stray(e.offset); err != nil {
			return err
		}
	}
	w.judgeRemoved()
	return nil
}

// record judges a record that the log has.
func (w *walk) record(offset, written int64) error {
	w.certain = offset
	for e := w.all.peek(); e != nil && e.partition == w.number && e.offset < offset; e = w.all.peek() {
		if err := w.stray(e.offset); err != nil {
			return err
		}
	}
	if err := w.take(offset); err != nil {
		return err
	}
	complete := w.judge(offset)
	if !w.settled(offset) {
		w.judged.Waiting++
		return nil
	}
	demanded := w.start.demands(offset, written)
	if demanded && w.judged.From < 0 {
		w.judged.From = offset
	}
	switch {
	case complete:
		w.judged.Ended++
	case !demanded:
		w.judged.Before++
	case offset >= w.unsure && offset < w.fickle:
		w.judged.Unsure++
	default:
		w.missing(offset)
	}
	return nil
}

// missing tells of a record that has not all of its receipts.
func (w *walk) missing(offset int64) {
	dead := ""
	if len(w.letters) > 0 {
		dead = "; it has a dead letter"
	}
	if len(w.some) == 0 {
		w.gap(w.part, NoReceipt, offset, "it is confirmed (%s), and has no receipt%s", w.commits(), dead)
		return
	}
	have := map[int32]bool{}
	for i := range w.some {
		have[w.some[i].part] = true
	}
	parts, missing := w.some[len(w.some)-1].parts, []int32(nil)
	for n := range parts {
		if !have[n] && len(missing) < 5 {
			missing = append(missing, n)
		}
	}
	w.gap(w.part, PartMissing, offset, "it is confirmed (%s), and of its %d parts, counted from 0, there is no receipt for %v%s", w.commits(), parts, missing, dead)
}

// commits is what the lanes have committed.
func (w *walk) commits() (text string) {
	for i, lane := range w.lanes {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s lane: %d", lane, w.Commits[lane].Offset)
	}
	return text
}

// stray judges what is about an offset at which the log has shown no record.
func (w *walk) stray(offset int64) error {
	if err := w.take(offset); err != nil {
		return err
	}
	complete := w.judge(offset)
	what := "a dead letter"
	if len(w.some) > 0 {
		what = fmt.Sprintf("the receipt at offset %d of partition %d of its topic", w.some[0].at, w.some[0].from)
	}
	switch {
	case offset >= w.End:
		w.gap(w.part, NoSuchRecord, offset, "%s is of a record beyond the log's end, %d", what, w.End)
	case offset < w.Start && complete && !w.settled(offset):
		w.have++
	case offset < w.Start, w.Compacted, offset >= w.certain:
	default:
		w.gap(w.part, NoSuchRecord, offset, "%s is of a record that the log does not have, between others that it has", what)
	}
	return nil
}

// take takes the receipts and dead letters of the record at offset off the stream.
func (w *walk) take(offset int64) (err error) {
	w.some, w.letters = w.some[:0], w.letters[:0]
	e := w.all.peek()
	if e == nil || e.partition != w.number || e.offset != offset {
		return nil
	}
	w.some, err = w.all.group(w.some, func(a, b *entry) bool { return a.partition == b.partition && a.offset == b.offset })
	for len(w.some) > 0 && w.some[0].letter { // their part is -1
		w.letters = append(w.letters, w.some[0])
		w.some = w.some[1:]
	}
	return err
}

// judge judges the receipts and dead letters of a record by themselves. It reports whether
// all of its parts have ended.
func (w *walk) judge(offset int64) (complete bool) {
	for i := 0; i < len(w.some); {
		n := 1
		for i+n < len(w.some) && w.some[i+n].part == w.some[i].part {
			n++
		}
		w.judgePart(offset, w.some[i:i+n])
		i += n
	}
	if w.oneRoute(offset) {
		w.judgeParts(offset)
	}
	w.judgeLetters(offset)
	return w.complete()
}

// ofWholeRecord reports whether the receipt stands for the whole record: it could not be decoded.
func (e *entry) ofWholeRecord() bool { return e.outcome == deadLetter && e.mapping == 0 }

// complete reports whether receipts stand for all parts of the record, by what some of them
// say about their number.
func (w *walk) complete() bool {
	for i := range w.some {
		if w.some[i].ofWholeRecord() {
			return true
		}
	}
	for i := range w.some {
		parts := w.some[i].parts
		if i > 0 && w.some[i-1].parts == parts {
			continue
		}
		next := int32(0) // they are sorted by their parts
		for j := range w.some {
			if w.some[j].parts == parts && w.some[j].part == next {
				next++
			}
		}
		if next == parts {
			return true
		}
	}
	return false
}

// judgePart judges the receipts of one part. Several of one assignment are one end told
// twice, if they say the same: Kafka's answer was lost, or the import's confirmation was tried
// again. Those of several assignments are repetitions.
func (w *walk) judgePart(offset int64, rs []entry) {
	w.report.Repeated += int64(len(rs) - 1)
	for i := range rs {
		r := &rs[i]
		if i > 0 && rs[i-1].lane == r.lane && rs[i-1].assigned == r.assigned && !w.same(&rs[i-1], r) {
			w.gap(w.part, Doubled, offset, "part %d ended twice in the assignment of %s: %s; and %s", r.part, stamp(millis(r.assigned)), w.ended(&rs[i-1]), w.ended(r))
		}
	}
	other := slices.IndexFunc(rs, func(r entry) bool { return r.lane != rs[0].lane })
	if other < 0 || !w.oneRoute(offset) {
		return
	}
	if rs[0].ofWholeRecord() || rs[other].ofWholeRecord() { // each lane asks for the schema, and may find none
		return
	}
	w.gap(w.part, BothLanes, offset, "part %d was ended by both lanes: %s; and %s", rs[0].part, w.ended(&rs[0]), w.ended(&rs[other]))
}

// same reports whether two receipts of one part and assignment tell of one end.
func (w *walk) same(a, b *entry) bool {
	if a.outcome != b.outcome || a.execution != b.execution || a.status != b.status {
		return false
	}
	return a.ended == b.ended || a.lane == Batch && (a.outcome == imported || a.outcome == superseded) // an import that is confirmed once more
}

func (w *walk) ended(e *entry) string {
	text := fmt.Sprintf("%s lane, %s at %s", e.lane, outcomeNames[e.outcome], stamp(millis(e.ended)))
	if e.execution != 0 {
		text += " by execution " + w.names[e.execution]
	}
	return text
}

// judgeParts judges what receipts say about the number of parts.
func (w *walk) judgeParts(offset int64) {
	first := -1
	for i := range w.some {
		switch {
		case w.some[i].ofWholeRecord():
		case first < 0:
			first = i
		case w.some[i].parts != w.some[first].parts:
			w.gap(w.part, PartsDiffer, offset, "a receipt says that it has %d parts, and another one %d", w.some[first].parts, w.some[i].parts)
			return
		}
	}
}

// judgeLetters compares dead letters with the receipts that tell of them. A dead letter without
// such a receipt is none too many: a crash may have come between the two.
func (w *walk) judgeLetters(offset int64) {
	for i := range w.some {
		r := &w.some[i]
		if r.outcome != deadLetter || w.LettersGone || w.Letters == nil {
			continue
		}
		if !slices.ContainsFunc(w.letters, func(l entry) bool { return l.mapping == r.mapping }) {
			w.gap(w.part, NoDeadLetter, offset, "its receipt says dead letter, of mapping %q, and there is none in the dead-letter topic", w.names[r.mapping])
			return
		}
	}
	if !w.oneRoute(offset) {
		return
	}
	for i := range w.letters {
		l := &w.letters[i]
		mine := func(r entry) bool { return r.mapping == l.mapping }
		if l.mapping == 0 || !slices.ContainsFunc(w.some, mine) {
			continue
		}
		if !slices.ContainsFunc(w.some, func(r entry) bool { return mine(r) && r.lane == l.lane }) {
			w.gap(w.part, BothLanes, offset, "the %s lane has written a dead letter of it, of mapping %q, and the other lane has ended it", l.lane, w.names[l.mapping])
			return
		}
	}
}

// judgeRemoved judges what the log has lost: records that a lane has not confirmed, unless they
// ended all the same, or an import covers them.
func (w *walk) judgeRemoved() {
	if w.Compacted {
		return
	}
	for _, lane := range w.lanes {
		c, l := w.Commits[lane], w.ledgers[lane]
		if c == nil || c.Offset >= w.Start || l == nil {
			continue
		}
		lost := w.Start - c.Offset
		for _, s := range l.done {
			lost -= max(0, min(s.to, w.Start)-max(s.from, c.Offset))
		}
		covered := slices.ContainsFunc(l.imports, func(r running) bool { return r.upTo >= w.Start && r.execution != "" })
		if lost > w.have && !covered {
			w.gap(w.part, Removed, c.Offset, "the log begins at %d, and the %s lane has confirmed what is below %d: of %d records in between nothing says that they ended",
				w.Start, lane, c.Offset, lost-w.have)
			return
		}
	}
}
