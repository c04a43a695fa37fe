package why

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/pause"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

// Judge tells of one key's records, which come by partition and offset, where each is.
func (s *State) Judge(key string, found []Found) Key {
	k := Key{Key: key, Records: make([]Record, len(found)), Newest: -1}
	for i := range found {
		k.Records[i] = s.record(&found[i])
	}
	for i := range found {
		s.replaced(found, k.Records, i)
	}
	k.Records = byTime(k.Records)
	for i := range k.Records {
		if k.Records[i].Verdict != Skipped {
			k.Newest = i
		}
	}
	k.Answer = s.answer(&k)
	return k
}

// record is where a record is, looked at alone.
func (s *State) record(f *Found) Record {
	r := Record{
		Topic: f.Topic, Partition: f.Partition, Offset: f.Offset, Time: f.Timestamp.UTC(), Lane: f.Lane.String(), ByRecordKey: f.ByRecordKey,
	}
	if f.Err == nil {
		r.Route = new(f.Route + 1)
	}
	if f.Err == nil && f.Lane != schemas.Skip {
		r.Op = f.Write.Op.String()
		for i := range f.Write.Cells {
			c := &f.Write.Cells[i]
			r.Columns = append(r.Columns, column(c.Place))
			if s.Values {
				if r.Values == nil {
					r.Values = map[string]json.RawMessage{}
				}
				r.Values[column(c.Place)] = c.Value.AppendJSON(nil)
			}
		}
	}
	r.Receipt = s.Receipt(f)
	if r.Letter = s.letter(f); r.Letter != nil {
		r.Verdict, r.Why = DeadLetter, r.Letter.text()
		return r
	}
	r.Verdict, r.Why, r.Until = s.verdict(f)
	r.Verdict, r.Why = told(r.Verdict, r.Why, r.Receipt)
	return r
}

// column is a cell's name as a file's header has it.
func column(p *schemas.Place) string {
	switch p.Section {
	case schemas.Subscriptions:
		return "subscriptions#" + p.Name
	case schemas.Segments:
		return "S_" + p.Name
	case schemas.DataCollection:
		return "dataCollection." + p.Name
	}
	return p.Name
}

// letter is the record's dead letter, nil if there is none: of several, of which each replay
// that failed adds one, the one that counts. One of a record that had the same offset in an
// earlier topic is another's.
func (s *State) letter(f *Found) (found *Letter) {
	for _, l := range s.Letters[cluster.PlaceOf(f.Record)] {
		own := l.Received.Record
		if !bytes.Equal(own.Key, f.Record.Key) || !bytes.Equal(own.Value, f.Value) || l.Received.Mapping != "" && !replay.OfMapping(s.Router, s.Mapping, l.Received) {
			continue
		}
		if found == nil || found.Ended && !l.Ended || found.Ended == l.Ended && l.Attempts >= found.Attempts {
			found = &l
		}
	}
	return found
}

func (l *Letter) text() string {
	what := "open"
	switch l.State {
	case "tried":
		what = "open; a replay that did not end may have sent it"
	case "done":
		what = "replayed: applied, or a newer record had replaced it"
	case "discarded":
		what = "discarded"
		if l.Discarded != "" {
			what += " (" + l.Discarded + ")"
		}
	}
	return fmt.Sprintf("%s: %s (letter %s, %s)", l.Reason, l.Message, l.Letter, what)
}

// verdict is where a record is that is no dead letter, why, and until when it waits.
func (s *State) verdict(f *Found) (v Verdict, why string, until time.Time) {
	lane := f.Lane
	if lane == schemas.Skip { // each lane that reads it confirms it at once
		lane = s.anyLane()
	}
	l, group := s.Ledgers[lane][f.place()], s.Groups[lane]
	from, agrees := l.Routes.From(s.Mapping.Routes)
	confirmed := l.confirmed(f.Offset)
	unknown := func(format string, args ...any) (Verdict, string, time.Time) {
		return Unknown, fmt.Sprintf(format, args...), time.Time{}
	}
	switch {
	case confirmed && l.Reason != "":
		return unknown("below the offset %d of group %s, but %s: what became of the record is not on record", l.Offset, group, l.Reason)
	case confirmed && !agrees:
		return unknown("committed, but group %s applies other routes than this configuration", group)
	case confirmed && f.Offset < from && l.Routes.First:
		return unknown("below offset %d, where group %s began: it did not read the record, or its commits were deleted since", from, group)
	case confirmed && f.Offset < from:
		return unknown("committed under earlier routes: those of this configuration count from offset %d on", from)
	case f.Lane == schemas.Skip:
		return Skipped, "its route skips it", until
	case confirmed && f.Err != nil:
		return unknown("this configuration refuses it (%v), and it is committed, but its dead letter is not there: it was deleted, or another configuration made something else of the record", f.Err)
	case !confirmed && !agrees && s.otherHas(f):
		return unknown("group %s has committed it and group %s has not, which applies other routes than this configuration", s.Groups[f.Lane.Other()], group)
	case !confirmed:
		why, until = s.waits(f, &l, agrees)
		return Waiting, why, until
	case s.writtenAgain(f):
		return Waiting, fmt.Sprintf("its call was made, and group %s writes it once more: a file of other routes may have come after it", s.Groups[schemas.Batch]), until
	case f.Offset < l.Offset:
		return Confirmed, fmt.Sprintf("below the commit of group %s, offset %d", group, l.Offset), until
	}
	return Confirmed, fmt.Sprintf("in the ledger of group %s, beyond its commit at offset %d", group, l.Offset), until
}

func (s *State) anyLane() schemas.Lane {
	if s.Mapping.Uses(schemas.Immediate) {
		return schemas.Immediate
	}
	return schemas.Batch
}

// otherHas reports whether the other lane has committed the record, and need not have left
// it to its own lane: it did not apply the routes of this configuration to it.
func (s *State) otherHas(f *Found) bool {
	l := s.Ledgers[f.Lane.Other()][f.place()]
	from, agrees := l.Routes.From(s.Mapping.Routes)
	return l.confirmed(f.Offset) && (!agrees || f.Offset < from)
}

// writtenAgain reports whether the batch lane writes a call's write once more.
func (s *State) writtenAgain(f *Found) bool {
	l := s.Ledgers[schemas.Batch][f.place()]
	return f.Lane == schemas.Immediate && f.Offset < l.Routes.Resend && !l.confirmed(f.Offset)
}

// waits is what a record waits for, as far as that is known, and until when.
func (s *State) waits(f *Found, l *Ledger, agrees bool) (why string, until time.Time) {
	group := s.Groups[f.Lane]
	if !l.Committed {
		return fmt.Sprintf("group %s has committed nothing of the partition%s", group, prefixed("; ", l.Reason)), until
	}
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if !agrees && l.Reason == "" {
		say("group %s applies other routes than this configuration, which may make something else of it", group)
	}
	for _, h := range l.Halts {
		if h.Mapping == flood.HashOf(s.Mapping.Name) {
			say("the mapping is halted, as nearly all of its records are refused alike (%s, status %d); once the cause is gone: feedsink imports release --mapping %s", h.Code, h.Status, s.Mapping.Name)
		}
	}
	if p, paused := s.Pauses.Paused(pause.Of{Mapping: flood.HashOf(s.Mapping.Name), Batch: f.Lane == schemas.Batch}); paused {
		say("the %s lane of the mapping is paused%s", f.Lane, prefixed(": ", p.Reason))
		if p.Until > 0 {
			until = time.UnixMilli(p.Until).UTC()
		}
	}
	switch im := s.covering(f, l); {
	case im != nil:
		all = append(all, importText(im, s.Mapping.Name))
	case f.Lane == schemas.Batch && f.Err == nil && !s.Due.IsZero():
		say("its row goes into the open file, which is sent then, or once it is full")
		until = s.Due.UTC()
	}
	for _, w := range s.Waits {
		if w.Lane == f.Lane.String() && (w.Mapping == "" || w.Mapping == s.Mapping.Name) && (w.Topic == "" || w.Topic == f.Topic) &&
			(w.Table == "" || w.Table == s.Mapping.Label) {
			say("%s", w.Why)
			if until.IsZero() {
				until = w.Until.UTC()
			}
		}
	}
	if l.Routes.Hold {
		say("group %s waits for the other lane to let go of the partition", group)
	}
	if f.Err != nil {
		say("this configuration refuses it (%v): it will be a dead letter", f.Err)
	}
	if len(all) == 0 || s.covering(f, l) == nil {
		say("group %s has committed up to offset %d", group, l.Offset)
	}
	return strings.Join(all, "; "), until
}

// covering is the import on its way that holds the record's row, nil if there is none.
func (s *State) covering(f *Found, l *Ledger) *ack.Import {
	if f.Lane != schemas.Batch || f.Err != nil {
		return nil
	}
	for i := range l.Imports {
		if im := &l.Imports[i]; slices.Contains(s.Tables, im.Table) && f.Offset < im.UpTo {
			return im
		}
	}
	return nil
}

func importText(im *ack.Import, mapping string) string {
	switch im.State {
	case ack.Intended:
		return "import " + im.File + " may have been sent: its execution is not on record yet"
	case ack.Running:
		return "import " + im.File + " runs as execution " + im.Execution
	case ack.Reconciling:
		return "execution " + im.Execution + " has loaded its row; keys that calls wrote meanwhile are sent once more"
	case ack.Refused:
		return "import " + im.File + " was refused; once the cause is gone: feedsink imports release --mapping " + mapping
	case ack.InError, ack.PartInError:
		return "execution " + im.Execution + " has rows in error, and there is no dead-letter topic"
	case ack.SetApart:
		return "execution " + im.Execution + " has ended; the partition's records are read again"
	}
	return "import " + im.File + " was not sent, or failed; its records are filed again"
}

// replaced notes which later record of the partition replaces the i-th whole. If that one is
// confirmed and this one is not, it never will be more than superseded.
func (s *State) replaced(found []Found, records []Record, i int) {
	if records[i].Op == "" {
		return
	}
	for j := i + 1; j < len(found) && found[j].place() == found[i].place(); j++ {
		if v := records[j].Verdict; records[j].Op == "" || v != Confirmed && v != Waiting {
			continue
		}
		if _, whole := replay.Follow(found[i].Write, found[j].Write, found[j].Lane == schemas.Batch); !whole {
			continue
		}
		if records[i].ReplacedBy == nil {
			records[i].ReplacedBy = &found[j].Offset
		}
		if records[i].Verdict == Waiting && records[j].Verdict == Confirmed {
			records[i].Verdict, records[i].Why = Superseded, fmt.Sprintf("offset %d, which is confirmed, has replaced it; %s", found[j].Offset, records[i].Why)
			return
		}
	}
}

// byTime orders records that come by partition and offset.
func byTime(records []Record) []Record {
	ordered := make([]Record, 0, len(records)) // a list in JSON, where there is none, too
	var partitions [][]Record
	for len(records) > 0 {
		n := 1
		for n < len(records) && records[n].place() == records[0].place() {
			n++
		}
		partitions, records = append(partitions, records[:n]), records[n:]
	}
	for len(partitions) > 0 {
		next := 0
		for i := range partitions {
			if partitions[i][0].Time.Before(partitions[next][0].Time) {
				next = i
			}
		}
		ordered = append(ordered, partitions[next][0])
		if partitions[next] = partitions[next][1:]; len(partitions[next]) == 0 {
			partitions = slices.Delete(partitions, next, next+1)
		}
	}
	return ordered
}

func (r *Record) place() cluster.TopicPartition {
	return cluster.TopicPartition{Topic: r.Topic, Partition: r.Partition}
}

// String is the record's place as messages name it: topic[3]@17.
func (r *Record) String() string { return fmt.Sprintf("%s@%d", r.place(), r.Offset) }

// answer is where the newest state is.
func (s *State) answer(k *Key) string {
	if k.Newest < 0 {
		if len(k.Records) == 0 {
			return "No record of the key."
		}
		return "Nothing is written: a route skips every record of the key."
	}
	newest := &k.Records[k.Newest]
	var text string
	switch newest.Verdict {
	case Confirmed:
		text = fmt.Sprintf("The newest state (%s) is confirmed", newest)
		if newest.Receipt != nil {
			text += ": " + newest.Receipt.String()
		}
	case Waiting:
		text = fmt.Sprintf("The newest state (%s) waits%s: %s", newest, untilText(newest.Until), newest.Why)
	case DeadLetter:
		text = fmt.Sprintf("The newest record (%s) is a dead letter, %s", newest, newest.Why)
		for i := k.Newest - 1; i >= 0; i-- {
			if r := &k.Records[i]; r.Verdict != DeadLetter && r.Verdict != Skipped {
				text += fmt.Sprintf("; the state before it (%s) is %s", r, r.Verdict)
				break
			}
		}
	default:
		text = fmt.Sprintf("Where the newest state (%s) is cannot be told: %s", newest, newest.Why)
	}
	waiting, partitions := 0, map[cluster.TopicPartition]bool{}
	for i := range k.Records {
		r := &k.Records[i]
		partitions[r.place()] = true
		if i < k.Newest && (r.Verdict == Waiting || r.Verdict == Superseded) {
			waiting++
		}
	}
	if waiting > 0 {
		text += fmt.Sprintf("; of older records %d %s not confirmed", waiting, cmp.Or(map[int]string{1: "is"}[waiting], "are"))
		if newest.Verdict == Confirmed && newest.Lane == schemas.Immediate.String() && s.Mapping.DualLane() {
			text += ": a file with an older row may come after the call, and the batch lane then sends the newest state once more"
		}
	}
	if len(partitions) > 1 {
		text += fmt.Sprintf("; its records are in %d partitions, between which no order is kept", len(partitions))
	}
	return text + "."
}

func untilText(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return " until " + until.Format(time.RFC3339)
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
