package replay

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// chunkSize is how many dead letters one commit tells of: two bits for each fit into
// the metadata that a broker accepts, whichever of them are set.
const chunkSize = 8192

// version opens the metadata of every commit of ours.
const version = "replay1."

// chunk is what became of the dead letters of chunkSize successive offsets.
type chunk struct {
	done  bitmap // ended: applied, superseded, or back as a new dead letter
	tried bitmap // may have been sent
}

type bitmap [chunkSize / 8]byte

func (b *bitmap) has(i int64) bool { return b[i/8]&(1<<(i%8)) != 0 }
func (b *bitmap) set(i int64)      { b[i/8] |= 1 << (i % 8) }
func (b *bitmap) clear(i int64)    { b[i/8] &^= 1 << (i % 8) }

// encode is the metadata of the commit; the topic's id tells its dead letters from
// those of an earlier topic of the same name.
func (c *chunk) encode(topic ack.TopicID) string {
	bytes := make([]byte, 0, len(topic)+2*len(c.done))
	bytes = append(bytes, topic[:]...)
	bytes = append(bytes, c.done[:]...)
	bytes = append(bytes, c.tried[:]...)
	return version + base64.RawURLEncoding.EncodeToString(bytes)
}

// The metadata was not written by us, or tells of a topic that is gone.
var (
	errForeign  = errors.New("metadata that no replay wrote")
	errOldTopic = errors.New("marks of an earlier topic of this name")
)

func decodeChunk(metadata string, topic ack.TopicID) (*chunk, error) {
	text, ours := strings.CutPrefix(metadata, version)
	bytes, err := base64.RawURLEncoding.DecodeString(text)
	c := &chunk{}
	if !ours || err != nil || len(bytes) != len(topic)+len(c.done)+len(c.tried) {
		return nil, errForeign
	}
	if ack.TopicID(bytes[:len(topic)]).Differs(topic) {
		return nil, errOldTopic
	}
	copy(c.done[:], bytes[len(topic):])
	copy(c.tried[:], bytes[len(topic)+len(c.done):])
	return c, nil
}

// next is the first offset of the chunk that is not done: what is committed
// beside the marks, so that the group's lag says something.
func (c *chunk) next() int64 {
	for i := range int64(chunkSize) {
		if !c.done.has(i) {
			return i
		}
	}
	return chunkSize
}

// Marks remember in Kafka which dead letters were replayed or discarded. A dead letter is
// open, then perhaps tried, then done. They lie in the metadata of commits of the groups
// PREFIX.0, PREFIX.1 and so on, one for each 8192 offsets of the dead-letter
// topic, which have no members. Why some were discarded is in those of the groups
// PREFIX.discarded.0 and so on. As a broker keeps the commits of such a group for
// a while only (offsets.retention.minutes, 7 days), a dead letter that is much older
// may be open again.
type Marks struct {
	reader    *cluster.Reader
	topic     string
	connector string
	id        ack.TopicID
	spans     map[cluster.TopicPartition]cluster.Span
	chunks    map[mark]*chunk
	dirty     map[mark]bool

	discarded map[mark]discards
	added     map[mark]bool // where discarded has changed
}

// mark is a chunk's place.
type mark struct {
	partition int32
	n         int64
}

// LoadMarks reads the marks of the connector's dead letters, and up to where the topic has some.
func LoadMarks(ctx context.Context, reader *cluster.Reader, topic, connector string, log *slog.Logger) (*Marks, error) {
	spans, err := reader.Spans(ctx, topic)
	if err != nil {
		return nil, err
	}
	id, err := reader.TopicID(ctx, topic)
	if err != nil {
		return nil, err
	}
	m := &Marks{
		reader: reader, topic: topic, connector: connector, id: id, chunks: map[mark]*chunk{}, dirty: map[mark]bool{},
		discarded: map[mark]discards{}, added: map[mark]bool{},
	}
	groups := map[int64]bool{}
	for _, span := range spans {
		for n := span.From / chunkSize; n*chunkSize < span.To; n++ {
			groups[n] = true
		}
	}
	for n := range groups {
		err := m.load(ctx, m.group(n), log, func(partition int32, metadata string) error {
			c, err := decodeChunk(metadata, id)
			if err == nil {
				m.chunks[mark{partition, n}] = c
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		err = m.load(ctx, m.discardGroup(n), log, func(partition int32, metadata string) error {
			d, err := decodeDiscards(metadata, id)
			if err == nil {
				m.discarded[mark{partition, n}] = d
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	// Read last: a replay adds new letters before it ends the old ones.
	m.spans, err = reader.Spans(ctx, topic)
	return m, err
}

// Spans are what the topic holds of dead letters: those that Letters reads.
func (m *Marks) Spans() map[cluster.TopicPartition]cluster.Span { return m.spans }

// Letters calls each for every record that the topic held when the marks had been read; the
// dead letter is nil where the record is none of the connector's.
func (m *Marks) Letters(ctx context.Context, each func(*deadletter.Record, *deadletter.Received) error) error {
	return m.lettersOf(ctx, m.spans, each)
}

// lettersOf is Letters for certain spans of the topic.
func (m *Marks) lettersOf(ctx context.Context, spans map[cluster.TopicPartition]cluster.Span, each func(*deadletter.Record, *deadletter.Received) error) error {
	return m.reader.Between(ctx, spans, func(rec *deadletter.Record) error {
		l, err := deadletter.Open(rec)
		if err != nil && !errors.Is(err, deadletter.ErrForeign) {
			return err
		}
		if l != nil && l.Connector != m.connector {
			l = nil
		}
		return each(rec, l)
	})
}

func (m *Marks) load(ctx context.Context, group string, log *slog.Logger, take func(partition int32, metadata string) error) error {
	commits, err := m.reader.Committed(ctx, group)
	if err != nil {
		return err
	}
	for place, commit := range commits {
		if err := take(place.Partition, commit.Metadata); err != nil {
			log.Warn("what was replayed or discarded is not known; such letters count as open", "group", group, "partition", place.String(), "error", err)
		}
	}
	return nil
}

func (m *Marks) group(n int64) string { return fmt.Sprintf("%s.%d", MarksPrefix(m.connector), n) }

func (m *Marks) discardGroup(n int64) string {
	return fmt.Sprintf("%s.discarded.%d", MarksPrefix(m.connector), n)
}

func at(l *deadletter.Received) (mark, int64) {
	return mark{l.Partition, l.Offset / chunkSize}, l.Offset % chunkSize
}

// State is what has become of the dead letter, and why it was discarded if it was.
func (m *Marks) State(l *deadletter.Received) (state deadletter.State, discarded string) {
	k, i := at(l)
	reason, is := m.discarded[k].reason(i)
	c := m.chunks[k]
	switch {
	case is:
		return deadletter.StateDiscarded, reason
	case c != nil && c.done.has(i):
		return deadletter.StateDone, ""
	case c != nil && c.tried.has(i):
		return deadletter.StateTried, ""
	}
	return deadletter.StateOpen, ""
}

func (m *Marks) done(l *deadletter.Received) {
	c, i := m.change(l)
	c.done.set(i)
}

func (m *Marks) tried(l *deadletter.Received) {
	c, i := m.change(l)
	c.tried.set(i)
}

// notApplied says that nothing of what was sent of the dead letter was applied.
func (m *Marks) notApplied(l *deadletter.Received) {
	if state, _ := m.State(l); state == deadletter.StateTried {
		c, i := m.change(l)
		c.tried.clear(i)
	}
}

func (m *Marks) discard(l *deadletter.Received, reason string) {
	m.done(l)
	k, i := at(l)
	if m.discarded[k] == nil {
		m.discarded[k] = discards{}
	}
	m.discarded[k].add(i, reason)
	m.added[k] = true
}

func (m *Marks) change(l *deadletter.Received) (c *chunk, i int64) {
	k, i := at(l)
	if m.chunks[k] == nil {
		m.chunks[k] = &chunk{}
	}
	m.dirty[k] = true
	return m.chunks[k], i
}

// save commits what has changed, and nothing if the reasons of discards are too long.
// Reasons come first: a crash then leaves no dead letter that has ended without one. After
// an error it may be called again.
func (m *Marks) save(ctx context.Context) error {
	reasons := map[mark]string{}
	for k := range m.added {
		var err error
		if reasons[k], err = m.discarded[k].encode(m.id); err != nil {
			return err
		}
	}
	for k, metadata := range reasons {
		commit := cluster.Commit{Offset: k.n * chunkSize, Metadata: metadata}
		if err := m.commit(ctx, m.discardGroup(k.n), k.partition, commit); err != nil {
			return err
		}
		delete(m.added, k)
	}
	for k := range m.dirty {
		c := m.chunks[k]
		commit := cluster.Commit{Offset: k.n*chunkSize + c.next(), Metadata: c.encode(m.id)}
		if err := m.commit(ctx, m.group(k.n), k.partition, commit); err != nil {
			return err
		}
		delete(m.dirty, k)
	}
	return nil
}

func (m *Marks) commit(ctx context.Context, group string, partition int32, commit cluster.Commit) error {
	err := m.reader.Commit(ctx, group, map[cluster.TopicPartition]cluster.Commit{{Topic: m.topic, Partition: partition}: commit})
	if err != nil {
		return fmt.Errorf("mark letters: %w", err)
	}
	return nil
}
