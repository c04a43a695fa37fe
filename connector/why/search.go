package why

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Found is a record of a key that is asked about, and what the configuration makes of it.
type Found struct {
	*kafka.Record        // its key and value are in memory of their own
	Key           string // of the row; "" if only the service's id names it
	// ByRecordKey says that the record's value names no row, or cannot be read: its own key
	// is that of the row.
	ByRecordKey bool
	Lane        schemas.Lane
	Route       int           // from 0; says something only without Err
	Write       schemas.Write // nothing of it where the record is refused or skipped
	Err         error         // why this configuration refuses the record; nil: it does not
	Hashed      receipt.Key   // as receipts have the row's key; the zero Key: not known
}

// place is the record's partition.
func (f *Found) place() cluster.TopicPartition {
	return cluster.TopicPartition{Topic: f.Topic, Partition: f.Partition}
}

// Decode makes of a record what the router reads, for one goroutine.
type Decode = func(*kafka.Record) (*router.Record, error)

// Search looks for the records of some keys of a mapping.
type Search struct {
	Router    *router.Router
	Mapping   *router.Compiled
	Keys      []string // of rows
	ProfileID string   // the service's id of one; "": none is asked for
	Decoders  []Decode // so many goroutines decode

	wanted map[string]bool
	texts  [][]byte // one of which is in a record of those keys, or one of unless; none: in any record
	unless [][]byte
}

// few is how many texts are looked for in a record before it is cheaper to decode it.
const few = 8

// batchRecords are decoded together: so many that to hand them over costs nothing.
const batchRecords = 256

// Run calls read, which has to call each for all records, in the goroutine of its caller. It
// returns those of the keys, by partition and offset. An error is one of read, of the
// schema registry, or of ctx.
func (s *Search) Run(ctx context.Context, read func(ctx context.Context, each func(*kafka.Record) error) error) ([]Found, error) {
	s.prepare()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	batches := make(chan []*kafka.Record, len(s.Decoders))
	var mu sync.Mutex
	var all []Found
	var decoding sync.WaitGroup
	for _, decode := range s.Decoders {
		decoding.Go(func() {
			for batch := range batches { // to the end: what hands them over must not wait
				if ctx.Err() != nil {
					continue
				}
				some, err := s.look(decode, batch)
				if err != nil {
					stop(err)
				}
				mu.Lock()
				all = append(all, some...)
				mu.Unlock()
			}
		})
	}
	var batch []*kafka.Record
	err := read(ctx, func(r *kafka.Record) error {
		if !s.may(r) {
			return nil
		}
		if batch = append(batch, r); len(batch) == batchRecords {
			batches <- batch
			batch = make([]*kafka.Record, 0, batchRecords)
		}
		return context.Cause(ctx)
	})
	batches <- batch
	close(batches)
	decoding.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	slices.SortFunc(all, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return all, err
}

// Of is what Run finds of one record; ok is false if it is of none of the keys. It is
// called by one goroutine.
func (s *Search) Of(decode Decode, r *kafka.Record) (f Found, ok bool, err error) {
	if s.wanted == nil {
		s.prepare()
	}
	if !s.may(r) {
		return Found{}, false, nil
	}
	found, err := s.look(decode, []*kafka.Record{r})
	if err != nil || len(found) == 0 {
		return Found{}, false, err
	}
	return found[0], true, nil
}

func (s *Search) prepare() {
	s.wanted = map[string]bool{}
	for _, key := range s.Keys {
		s.wanted[key] = true
	}
	unless, verbatim := s.Mapping.Verbatim()
	if !verbatim || len(s.Keys) > few {
		return
	}
	for _, text := range append(slices.Clone(s.Keys), s.ProfileID) {
		if text != "" {
			s.texts = append(s.texts, []byte(text))
		}
	}
	for _, text := range unless {
		s.unless = append(s.unless, []byte(text))
	}
}

// may reports whether a record may be one of those keys. False is certain. It looks at
// bytes only: to decode a record costs ten times as much.
func (s *Search) may(r *kafka.Record) bool {
	if s.texts == nil {
		return true
	}
	for _, text := range s.texts {
		if bytes.Contains(r.Value, text) || bytes.Contains(r.Key, text) {
			return true
		}
		for i := range r.Headers {
			if bytes.Contains(r.Headers[i].Value, text) {
				return true
			}
		}
	}
	for _, text := range s.unless {
		if bytes.Contains(r.Value, text) || bytes.Contains(r.Key, text) {
			return true
		}
	}
	return false
}

// look decodes records, and returns those of the keys.
func (s *Search) look(decode Decode, batch []*kafka.Record) (found []Found, err error) {
	var routed []router.Routed
	for _, r := range batch {
		decoded, err := decode(r)
		if _, bad := errors.AsType[*schemas.DecodeError](err); bad {
			found = append(found, s.undecodable(r, err)...)
			continue
		}
		if err != nil {
			return found, fmt.Errorf("decode %s[%d] at offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		routed = s.Router.Route(routed[:0], decoded)
		i := slices.IndexFunc(routed, func(w router.Routed) bool { return w.Mapping == s.Mapping })
		if i < 0 {
			continue
		}
		f := Found{Record: r, Key: routed[i].Write.Key, Lane: routed[i].Lane, Route: routed[i].Route, Err: routed[i].Err}
		id := routed[i].Write.ProfileID
		if f.Err != nil || f.Lane == schemas.Skip {
			f.Key, id, f.ByRecordKey = s.Router.Identify(s.Mapping, decoded)
		}
		if s.wants(f.Key, id) {
			f.Write, _ = routed[i].Write.Own()
			f.Key = strings.Clone(f.Key)
			found = append(found, owned(f))
		}
	}
	return found, nil
}

// undecodable is the record if it is one of the keys by its own key.
func (s *Search) undecodable(r *kafka.Record, why error) []Found {
	key, _, _ := s.Router.Identify(s.Mapping, &router.Record{Topic: r.Topic, Key: r.Key})
	if !s.wants(key, "") {
		return nil
	}
	f := Found{Record: r, Key: key, ByRecordKey: true, Lane: schemas.Batch, Err: why}
	if s.Router.Reads(r.Topic, schemas.Immediate) {
		f.Lane = schemas.Immediate
	}
	return []Found{owned(f)}
}

func (s *Search) wants(key, profileID string) bool {
	return s.wanted[key] || s.ProfileID != "" && profileID == s.ProfileID
}

// owned lets go of all that was fetched with the record.
func owned(f Found) Found {
	f.Record = &kafka.Record{
		Topic: f.Topic, Partition: f.Partition, Offset: f.Offset, Timestamp: f.Timestamp,
		Key: bytes.Clone(f.Record.Key), Value: bytes.Clone(f.Value),
	}
	return f
}
