// Package planted holds the evidence of an audit in memory, and plants in it what an audit has
// to find: receipts, dead letters and commits that are lost, doubled, in another order, forged or
// removed.
package planted

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/avro"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/audit"
	"github.com/feedsink/feedsink/schemas"
)

// Receipt is one, and where it lies.
type Receipt struct {
	Topic     string    `avro:"topic"`
	Partition int32     `avro:"partition"`
	Offset    int64     `avro:"offset"`
	Part      int32     `avro:"part"`
	Parts     int32     `avro:"parts"`
	Lane      string    `avro:"lane"`
	Mapping   string    `avro:"mapping"`
	Op        string    `avro:"op"`
	Outcome   string    `avro:"outcome"`
	Status    int32     `avro:"status"`
	Execution string    `avro:"execution"`
	Row       string    `avro:"row"`
	Written   time.Time `avro:"written"`
	Assigned  time.Time `avro:"assigned"`
	Started   time.Time `avro:"started"`
	Ended     time.Time `avro:"ended"`
	KeyID     string    `avro:"keyId"`

	Key   []byte `avro:"-"`
	In    int32  `avro:"-"` // the partition of its topic
	At    int64  `avro:"-"` // and the offset
	Bytes []byte `avro:"-"` // instead of all that
}

// Record is a record of a topic: its offset, and when it was written, in milliseconds of Unix.
type Record struct{ Offset, Written int64 }

// World is evidence in memory.
type World struct {
	Read       time.Time
	Partitions []audit.Partition
	Receipts   []Receipt
	Letters    []audit.Message
	Records    map[string][]Record // by topic[partition]
	Tables     map[string]audit.Table
	Connector  string
}

var schema = func() *avro.Schema { return avro.MustParse(Schema()) }()

// Schema is that of receipts.
func Schema() string {
	text, err := schemas.Files.ReadFile("receipt.avsc")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Load takes evidence into memory.
func Load(ctx context.Context, e *audit.Evidence, connector string, tables map[string]audit.Table) (*World, error) {
	w := &World{Read: e.Read, Partitions: e.Partitions, Records: map[string][]Record{}, Tables: tables, Connector: connector}
	err := e.Receipts(ctx, func(m *audit.Message) error {
		r := Receipt{Key: bytes.Clone(m.Key), In: m.Partition, At: m.Offset}
		if _, err := schema.DecodeSingleObject(m.Value, &r); err != nil {
			return err
		}
		w.Receipts = append(w.Receipts, r)
		return nil
	})
	if err == nil && e.Letters != nil {
		err = e.Letters(ctx, func(m *audit.Message) error {
			l := audit.Message{Partition: m.Partition, Offset: m.Offset}
			for _, h := range m.Headers {
				l.Headers = append(l.Headers, audit.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
			}
			w.Letters = append(w.Letters, l)
			return nil
		})
	}
	for i := range e.Partitions {
		p := &e.Partitions[i]
		if err == nil {
			_, err = e.Records(ctx, p, p.Start, p.End, func(offset, written int64) error {
				w.Records[p.String()] = append(w.Records[p.String()], Record{offset, written})
				return nil
			})
		}
	}
	return w, err
}

// Clone is a world of its own.
func (w *World) Clone() *World {
	c := *w
	c.Partitions, c.Receipts, c.Letters = slices.Clone(w.Partitions), slices.Clone(w.Receipts), slices.Clone(w.Letters)
	for i := range c.Partitions {
		for lane, commit := range c.Partitions[i].Commits {
			if commit != nil {
				own := *commit
				c.Partitions[i].Commits[lane] = &own
			}
		}
	}
	c.Records, c.Tables = maps.Clone(w.Records), maps.Clone(w.Tables)
	return &c
}

// Audit audits the world.
func (w *World) Audit(ctx context.Context, o audit.Options) (*audit.Report, error) {
	o.Schema, o.Connector, o.Tables = Schema(), w.Connector, w.Tables
	return audit.Run(ctx, w.evidence(), o)
}

func (w *World) evidence() *audit.Evidence {
	return &audit.Evidence{
		Read: w.Read, Partitions: slices.Clone(w.Partitions), ReceiptsTopic: "receipts",
		Receipts: func(_ context.Context, each func(*audit.Message) error) error {
			for i := range w.Receipts {
				r := &w.Receipts[i]
				value, err := r.Bytes, error(nil)
				if value == nil {
					value, err = schema.AppendSingleObject(nil, r)
				}
				if err == nil {
					err = each(&audit.Message{Partition: r.In, Offset: r.At, Key: r.Key, Value: value})
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		Letters: func(_ context.Context, each func(*audit.Message) error) error {
			for i := range w.Letters {
				if err := each(&w.Letters[i]); err != nil {
					return err
				}
			}
			return nil
		},
		Records: func(_ context.Context, p *audit.Partition, from, to int64, each func(offset, written int64) error) (int64, error) {
			for _, r := range w.Records[p.String()] {
				if r.Offset < from || r.Offset >= to {
					continue
				}
				if err := each(r.Offset, r.Written); err != nil {
					return 0, err
				}
			}
			return to, nil
		},
	}
}

// ledger lets change alter the ledger in a commit, and commits it for an offset.
func ledger(c *audit.Commit, offset int64, change func(*ack.Ledger)) {
	l, err := ack.Decode(c.Metadata, c.Offset)
	if err != nil {
		panic(err)
	}
	change(&l)
	c.Offset = offset
	if c.Metadata, _, err = l.Encode(offset, 1<<20); err != nil {
		panic(err)
	}
}

func (w *World) partition(topic string, id int32) *audit.Partition {
	for i := range w.Partitions {
		if p := &w.Partitions[i]; p.Topic == topic && p.ID == id {
			return p
		}
	}
	panic(fmt.Sprintf("no partition %s[%d]", topic, id))
}

// below reports whether all lanes have committed a record.
func (w *World) below(r *Receipt) bool {
	for _, c := range w.partition(r.Topic, r.Partition).Commits {
		if c != nil && r.Offset >= c.Offset {
			return false
		}
	}
	return true
}

// find is a receipt of a record that is committed, and the only one of it.
func (w *World) find(like func(*Receipt) bool) *Receipt {
	for i := range w.Receipts {
		if r := &w.Receipts[i]; w.below(r) && w.single(r) && like(r) {
			return r
		}
	}
	return nil
}

func (w *World) single(r *Receipt) bool { return len(w.of(r)) == 1 }

// of is the receipts of the record.
func (w *World) of(r *Receipt) (all []*Receipt) {
	for i := range w.Receipts {
		if o := &w.Receipts[i]; o.Topic == r.Topic && o.Partition == r.Partition && o.Offset == r.Offset {
			all = append(all, o)
		}
	}
	return all
}

// remove removes the receipts of a record.
func (w *World) remove(r Receipt) {
	w.Receipts = slices.DeleteFunc(w.Receipts, func(o Receipt) bool { return o.Topic == r.Topic && o.Partition == r.Partition && o.Offset == r.Offset })
}

// add writes one more receipt behind all others.
func (w *World) add(r Receipt) {
	r.At = int64(1 + len(w.Receipts)*2)
	for i := range w.Receipts {
		r.At = max(r.At, w.Receipts[i].At+1)
	}
	w.Receipts = append(w.Receipts, r)
}
