package forget

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// Whose says whether a record of the dead-letter topic is of the key.
type Whose int

// A record of another row, of the key, and one that cannot be read but has the key's text.
const (
	Another Whose = iota
	OfKey
	Unclear
)

// Letters decides how the dead letters of a key are removed from their topic. It is
// told of all records that the topic holds, by partition in the order of offsets.
type Letters struct {
	Topic   string
	Cleanup cluster.Cleanup
	Unknown error // why the cleanup is not known; nil: it is

	found  []*found
	needed map[int32]int // records so far that something may still need
	ended  map[int32]int // dead letters so far that have ended, of other rows
	last   map[keyed]*found
}

// keyed is a Kafka key in a partition, within which compaction works.
type keyed struct {
	partition int32
	key       string
}

// found is a dead letter that is of the key, or may be.
type found struct {
	letter   *deadletter.Received
	whose    Whose
	state    string
	open     bool
	key      []byte
	time     time.Time
	needed   int  // records before it that something may still need
	ended    int  // dead letters before it of other rows, which have ended
	replaced bool // a newer record of its Kafka key is behind it
}

// Add tells of the topic's next record. l is nil, or another connector's, where it is no dead letter of ours;
// state is what became of it, and open whether that can still change.
func (s *Letters) Add(r *deadletter.Record, l *deadletter.Received, whose Whose, state string, open bool) {
	if s.needed == nil {
		s.needed, s.ended, s.last = map[int32]int{}, map[int32]int{}, map[keyed]*found{}
	}
	at := keyed{r.Partition, string(r.Key)}
	if before := s.last[at]; before != nil && r.Key != nil {
		before.replaced = true
		delete(s.last, at)
	}
	switch {
	case whose == Another && l != nil && !open:
		s.ended[r.Partition]++
	case whose == Another && r.Value == nil && len(r.Headers) == 0: // a tombstone of an earlier run
	case whose == Another:
		s.needed[r.Partition]++
	default:
		f := &found{
			letter: withoutRecord(l), whose: whose, state: state, open: open, key: bytes.Clone(r.Key), time: r.Timestamp.UTC(),
			needed: s.needed[r.Partition], ended: s.ended[r.Partition],
		}
		s.found = append(s.found, f)
		s.last[at] = f
		if whose == Unclear {
			s.needed[r.Partition]++
		}
	}
}

// withoutRecord lets go of the record's bytes.
func withoutRecord(l *deadletter.Received) *deadletter.Received {
	of := *l
	of.Record = &deadletter.Record{Topic: l.Record.Topic, Partition: l.Record.Partition, Offset: l.Record.Offset}
	return &of
}

// how a dead letter is removed.
type how int

const (
	never how = iota
	byDeletion
	byTombstone
	byCompaction // a newer record of its key is behind it
	byRetention
)

func (s *Letters) how(f *found) how {
	switch {
	case f.whose == Unclear || s.Unknown != nil:
		return never
	case s.Cleanup.Deleted && f.needed == 0:
		return byDeletion
	case s.Cleanup.Compacted && f.replaced:
		return byCompaction
	case s.Cleanup.Compacted && f.key != nil:
		return byTombstone
	case s.Cleanup.Retention > 0:
		return byRetention
	}
	return never
}

// Removal is what is done to the dead letters of the key.
type Removal struct {
	Discard    map[cluster.TopicPartition]map[int64]bool // end these
	Before     map[cluster.TopicPartition]int64          // delete the records before
	Tombstones map[cluster.TopicPartition][][]byte       // write one for each of the keys
}

// Removal is what removes what can be removed.
func (s *Letters) Removal() Removal {
	r := Removal{map[cluster.TopicPartition]map[int64]bool{}, map[cluster.TopicPartition]int64{}, map[cluster.TopicPartition][][]byte{}}
	for _, f := range s.found {
		p := cluster.TopicPartition{Topic: s.Topic, Partition: f.letter.Partition}
		if f.open && f.whose == OfKey {
			if r.Discard[p] == nil {
				r.Discard[p] = map[int64]bool{}
			}
			r.Discard[p][f.letter.Offset] = true
		}
		switch s.how(f) {
		case byDeletion:
			r.Before[p] = f.letter.Offset + 1
		case byTombstone:
			r.Tombstones[p] = append(r.Tombstones[p], f.key)
		default:
		}
	}
	return r
}

// Places are where the dead letters are.
func (s *Letters) Places() []Place {
	places := make([]Place, 0, len(s.found))
	for _, f := range s.found {
		places = append(places, s.place(f))
	}
	return places
}

func (s *Letters) place(f *found) Place {
	at := cluster.TopicPartition{Topic: s.Topic, Partition: f.letter.Partition}
	p := Place{Kind: Letter, Where: fmt.Sprintf("%s@%d", at, f.letter.Offset), Holds: f.holds(), State: Removable}
	ends := ""
	if f.open && f.whose == OfKey {
		ends = "end it (discard)"
	}
	and := func(what string) string {
		if ends == "" {
			return what
		}
		return ends + ", " + what
	}
	switch s.how(f) {
	case byDeletion:
		p.Yes = and(fmt.Sprintf("delete the records of %s before offset %d%s", at, f.letter.Offset+1, f.along()))
	case byTombstone:
		p.Yes = and("write a tombstone with its Kafka key, so that compaction removes it")
	case byCompaction:
		p.State, p.Yes, p.Why = Goes, ends, "a newer record of its Kafka key is behind it: compaction removes it when it comes to it"
	case byRetention:
		p.State, p.Yes, p.Until = Goes, ends, f.time.Add(s.Cleanup.Retention)
		p.Why = fmt.Sprintf("Kafka removes no single record from this topic; its retention of %s removes it with its segment, and forget earlier, %s", Hours(s.Cleanup.Retention), f.once())
	default:
		p.State, p.Yes = Left, ends
		p.Why, p.Do = s.stays(f)
	}
	return p
}

// stays is why a dead letter stays, and what helps.
func (s *Letters) stays(f *found) (why string, do []string) {
	switch {
	case f.whose == Unclear:
		return "its record, or whose it is, cannot be read, so that it may be of this key or only name it", []string{
			"feedsink dlq list --all --show-value", "feedsink dlq discard --reason TEXT, and Kafka's own tools for the record",
		}
	case s.Unknown != nil:
		return fmt.Sprintf("how the topic loses records is not known: %v", s.Unknown), []string{"grant DESCRIBE_CONFIGS on topic " + s.Topic + ", then run forget again"}
	case s.Cleanup.Compacted:
		return "it has no Kafka key, so that compaction never removes it", []string{"kafka-delete-records.sh, or delete the topic"}
	}
	return "Kafka removes no single record from this topic, and it has no retention.ms", []string{"run forget again " + f.once()}
}

// holds is what the dead letter is of.
func (f *found) holds() string {
	record := "a row that matches no record"
	if !f.letter.NoRecord() {
		record = fmt.Sprintf("the record %s", cluster.PlaceOf(f.letter.Record))
	}
	what := record + ": " + f.letter.Code
	if f.letter.Mapping != "" {
		what += ", mapping " + f.letter.Mapping
	}
	return what + ", " + f.state
}

// along is which other dead letters a deletion takes with it.
func (f *found) along() string {
	if f.ended == 0 {
		return ""
	}
	return fmt.Sprintf(", with %d of other keys, all replayed or discarded", f.ended)
}

// once is when the records up to the dead letter can be deleted.
func (f *found) once() string {
	return fmt.Sprintf("once no open dead letter, nor another connector's record, is before it (now %d)", f.needed)
}

// Hours is a time without what is zero of it.
func Hours(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Names reports whether a text is in the record as a word of its own, or as a number.
func Names(r *deadletter.Record, text string) bool {
	if NamedIn(r.Key, text) || NamedIn(r.Value, text) {
		return true
	}
	for i := range r.Headers {
		if NamedIn(r.Headers[i].Value, text) {
			return true
		}
	}
	return false
}

// NamedIn reports whether a text is in another one as a word of its own, or as a number.
func NamedIn(in []byte, text string) bool {
	for from := 0; from < len(in); from++ {
		at := bytes.Index(in[from:], []byte(text))
		if at < 0 {
			return false
		}
		from += at
		before, _ := utf8.DecodeLastRune(in[:from])
		after, _ := utf8.DecodeRune(in[from+len(text):])
		if !ofWord(before) && !ofWord(after) {
			return true
		}
	}
	return false
}

func ofWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
