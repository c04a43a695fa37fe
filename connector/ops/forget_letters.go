package ops

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/forget"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/schemas"
)

// letters reads the dead-letter topic up to its present end.
func (f *forgetting) letters(ctx context.Context) (*forget.Letters, error) {
	topic := f.cfg.DLQ.Topic
	letters := &forget.Letters{Topic: topic}
	if topic == "" {
		return letters, nil
	}
	letters.Cleanup, letters.Unknown = f.reader.Cleanup(ctx, topic)
	marks, err := replay.LoadMarks(ctx, f.reader, topic, f.cfg.Kafka.Group, f.Log)
	if err != nil {
		return nil, err
	}
	search := &why.Search{Router: f.asked.router, Mapping: f.mapping, Keys: []string{f.Key}}
	return letters, marks.Letters(ctx, func(r *deadletter.Record, l *deadletter.Received) error {
		if l == nil {
			letters.Add(r, nil, forget.Another, "", false)
			return nil
		}
		state, _ := marks.State(l)
		whose, err := f.whose(search, l)
		if err == nil {
			letters.Add(r, l, whose, string(state), !state.Ended())
		}
		return err
	})
}

// whose says whether a dead letter is of the key: by the row that its record names, of
// whichever mapping it became one.
func (f *forgetting) whose(search *why.Search, l *deadletter.Received) (forget.Whose, error) {
	ours := replay.OfMapping(f.asked.router, f.mapping, l)
	if l.NoRecord() {
		switch {
		case ours && rowHas(l.Record, f.Key):
			return forget.OfKey, nil
		case ours && len(l.Record.Key) == 0 && forget.Names(l.Record, f.Key): // a row without its key, or in a file of another kind
			return forget.Unclear, nil
		}
		return forget.Another, nil
	}
	readable := slices.Contains(f.mapping.Config.Topics, l.Record.Topic)
	if readable {
		found, ok, err := search.Of(f.asked.decoders[0], l.Record)
		if err != nil {
			return forget.Another, fmt.Errorf("dead letter %d:%d: %w", l.Partition, l.Offset, err)
		}
		if ok && found.Key == f.Key {
			return forget.OfKey, nil
		}
	}
	unreadable := l.Stage == deadletter.Decoding || !readable && ours
	if readable && ours { // the mapping may not take it any more
		key, err := f.named(l.Record)
		if err != nil || key == f.Key {
			return forget.OfKey, err
		}
		unreadable = unreadable || key == ""
	}
	if unreadable && (readable || ours) && forget.Names(l.Record, f.Key) {
		return forget.Unclear, nil
	}
	return forget.Another, nil
}

// named is the key of the row that a record of the mapping's topics names, whether the mapping
// takes it or not; "" if none can be read.
func (f *forgetting) named(r *deadletter.Record) (key string, err error) {
	decoded, err := f.asked.decoders[0](r)
	if _, bad := errors.AsType[*schemas.DecodeError](err); bad {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("decode %s: %w", cluster.PlaceOf(r), err)
	}
	key, _, _ = f.asked.router.Identify(f.mapping, decoded)
	return key, nil
}

// rowHas reports whether a row that matches no record is of the key.
func rowHas(r *deadletter.Record, key string) bool {
	if len(r.Key) > 0 {
		return string(r.Key) == key
	}
	in := csv.NewReader(bytes.NewReader(r.Value))
	in.FieldsPerRecord, in.LazyQuotes = -1, true
	_, _ = in.Read() // the header
	cells, err := in.Read()
	return err == nil && slices.Contains(cells, key)
}

// removeLetters ends the key's dead letters and removes those that can be removed. A crash
// in between leaves letters that have ended; running it again goes on.
func (f *forgetting) removeLetters(ctx context.Context, letters *forget.Letters) (failed []error) {
	removal := letters.Removal()
	if len(removal.Discard) > 0 {
		discard := &replay.Discard{
			Topic: f.cfg.DLQ.Topic, Connector: f.cfg.Kafka.Group, Reason: f.Reason, Tried: true, Reader: f.reader, Log: f.Log,
			Chosen: func(l *deadletter.Received) bool {
				return removal.Discard[cluster.TopicPartition{Topic: f.cfg.DLQ.Topic, Partition: l.Partition}][l.Offset]
			},
		}
		if _, err := discard.Run(ctx); err != nil {
			return []error{fmt.Errorf("end dead letters: %w", err)} // what has not ended may still be needed
		}
	}
	for p, offset := range removal.Before {
		failed = append(failed, advised(f.reader.DeleteBefore(ctx, p, offset), "DELETE", p.Topic))
	}
	for p, keys := range removal.Tombstones {
		for _, key := range keys {
			failed = append(failed, advised(f.reader.Tombstone(ctx, p, key), "WRITE", p.Topic))
		}
	}
	return failed
}

// advised adds to an error what right is lacking, where that is why.
func advised(err error, right, topic string) error {
	if cluster.Denied(err) {
		return fmt.Errorf("%w; grant %s on topic %s, then run forget again", err, right, topic)
	}
	return err
}
