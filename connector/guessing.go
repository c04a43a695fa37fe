package connector

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedsink/feedsink/connector/setup"
	"github.com/feedsink/feedsink/connector/source"
	"github.com/feedsink/feedsink/schemas"
)

// errWireFormat says what a plain look at a value cannot do.
var errWireFormat = errors.New("its values are in the wire format of a schema registry; name it with --registry")

// Guess is a commented configuration for a topic, from a look at its last records.
// It joins no group.
func Guess(ctx context.Context, at setup.Place, limit int64) (string, error) {
	reader, err := source.NewReader(source.Connection{Brokers: at.Brokers})
	if err != nil {
		return "", err
	}
	defer reader.Close()
	sample, decoder := setup.NewSample("json"), schemas.NewJSON()
	_, err = readSample(ctx, reader, []string{at.Topic}, Sample{Limit: limit}, func(r *source.Record) error {
		var value schemas.Value
		if r.Value != nil {
			if len(r.Value) > 5 && r.Value[0] == 0 {
				return errWireFormat
			}
			var err error
			if value, err = decoder.Decode(r.Value); err != nil {
				sample.Unreadable++
				return nil //nolint:nilerr // counted; others may be readable
			}
		}
		sample.Add(r.Key, value)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("topic %s: %w", at.Topic, err)
	}
	text, err := sample.Write(at)
	if err != nil {
		return "", fmt.Errorf("topic %s: %w (%d without a value, %d unreadable)", at.Topic, err, sample.Tombstones, sample.Unreadable)
	}
	return text, nil
}
