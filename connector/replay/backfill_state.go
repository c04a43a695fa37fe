package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// backfillState is how far a backfill is. It lies in Kafka, in commits of a group without
// members: the span of each partition as offset and metadata, and the rest in the
// metadata of the first one. A broker keeps them for a while after the last commit
// (offsets.retention.minutes, 7 days).
type backfillState struct {
	Version int       `json:"v"`
	Asked   string    `json:"asked"`
	Mapping uint64    `json:"mapping,omitempty"` // its fingerprint; 0: that of a version that did not keep it
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	// Keys whose hashes are below Pos are done. Those below Tried may have been sent.
	Pos   uint64 `json:"pos"`
	Tried uint64 `json:"tried"`
	Ended bool   `json:"ended"`
	// By files: those that are loaded, by op, and the import that may still go on.
	Loaded   []string        `json:"loaded,omitempty"`
	UnderWay *importUnderWay `json:"underWay,omitempty"`

	BackfillCounts

	spans map[cluster.TopicPartition]cluster.Span
}

// hashes is how many there are: those of keys are below.
const hashes = 1 << 63

func (s *backfillState) done() float64 { return float64(s.Pos) / hashes }

// backfillMetadata is what a commit says besides its offset, which is the span's end.
type backfillMetadata struct {
	Topic []byte         `json:"topic"` // its id, which tells it from an earlier one of its name
	From  int64          `json:"from"`
	Run   *backfillState `json:"run,omitempty"` // of the first partition of the mapping's first topic
}

const backfillVersion = "backfill1."

// BackfillGroup is the group that one backfill of the mapping at a time is a member of.
func BackfillGroup(connector, mapping string) string { return connector + "-backfill." + mapping }

// progressGroup has no members, so that anybody may commit.
func (b *Backfill) progressGroup() string {
	return BackfillGroup(b.Replay.Connector, b.Mapping.Name) + ".progress"
}

func (b *Backfill) home() cluster.TopicPartition {
	return cluster.TopicPartition{Topic: b.Mapping.Config.Topics[0]}
}

// load is how far the mapping's last backfill got; nil if there is none of these topics.
func (b *Backfill) load(ctx context.Context) (*backfillState, error) {
	commits, err := b.Replay.Reader.Committed(ctx, b.progressGroup())
	if err != nil {
		return nil, err
	}
	var state *backfillState
	spans := map[cluster.TopicPartition]cluster.Span{}
	if b.ids, err = b.topicIDs(ctx); err != nil {
		return nil, err
	}
	for p, c := range commits {
		id, ours := b.ids[p.Topic]
		if !ours {
			continue // the mapping read another topic then
		}
		m, known := readBackfillMetadata(c.Metadata, id)
		if !known {
			b.Replay.Log.Warn("how far an earlier backfill got is not known: its commit is none of ours, or of an earlier topic of this name",
				"group", b.progressGroup(), "partition", p.String())
			return nil, nil
		}
		spans[p] = cluster.Span{From: m.From, To: c.Offset}
		if p == b.home() {
			state = m.Run
		}
	}
	if state != nil {
		state.spans = spans
	}
	return state, nil
}

// readBackfillMetadata fails where no backfill wrote it, or one of an earlier topic.
func readBackfillMetadata(metadata string, topic ack.TopicID) (m backfillMetadata, known bool) {
	text, ours := strings.CutPrefix(metadata, backfillVersion)
	known = ours && json.Unmarshal([]byte(text), &m) == nil && len(m.Topic) == len(topic) && !ack.TopicID(m.Topic).Differs(topic)
	return m, known
}

func (b *Backfill) topicIDs(ctx context.Context) (map[string]ack.TopicID, error) {
	ids := map[string]ack.TopicID{}
	for _, topic := range b.Mapping.Config.Topics {
		id, err := b.Replay.Reader.TopicID(ctx, topic)
		if err != nil {
			return nil, err
		}
		ids[topic] = id
	}
	return ids, nil
}

// upTo notes that the keys below the hash are done.
func (b *Backfill) upTo(hash uint64) {
	b.state.Pos, b.state.BackfillCounts = hash, newBackfillCounts(b.report.BackfillCounts)
}

// save commits how far the run is, in one commit. A key that came to no answer is not passed.
func (b *Backfill) save(ctx context.Context) error {
	if b.Files != nil {
		b.state.BackfillCounts = b.report.BackfillCounts
	}
	s := b.state
	if b.held != nil {
		s.Pos, s.Ended, s.BackfillCounts = b.held.Pos, false, b.held.BackfillCounts
	}
	commits := map[cluster.TopicPartition]cluster.Commit{}
	for p, span := range s.spans {
		id := b.ids[p.Topic]
		m := backfillMetadata{Topic: id[:], From: span.From}
		if p == b.home() {
			m.Run = &s
		}
		text, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("how far the backfill is: %w", err)
		}
		commits[p] = cluster.Commit{Offset: span.To, Metadata: backfillVersion + string(text)}
	}
	if err := b.Replay.Reader.Commit(ctx, b.progressGroup(), commits); err != nil {
		return fmt.Errorf("note how far the backfill is: %w", err)
	}
	return nil
}
