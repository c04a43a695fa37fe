package batcher

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/schemas"
)

// Mapping is the batch lane of one mapping.
type Mapping struct {
	Name        string
	Table       schemas.Table
	Fingerprint uint64
	Key         spool.Key
	Columns     []spool.Column // the key's among them
	CSV         spool.CSV
	Roll        Roll
	MaxFile     spool.Limit // of a file as it is sent, a law; Roll says when it is due
	RetryFailed int         // further tries of a file whose execution FAILED
	KeepResults bool        // output files are kept, whether they were needed or not
	Loads       map[schemas.Op]Load
	Auto        bool          // rows may be called instead: Offer
	Within      time.Duration // how old a record of such a row may be when the service has it; 0: no matter
	DualLane    bool          // the other lane writes keys of the table too: Other tells of them
	After       []string      // mappings whose rows are loaded first; those without a batch lane count for Parents only
	// Bundle joins mappings whose files go as one: of each op a ZIP with an entry
	// for every one of them that has a Load for it, which are the same ETL's. They
	// have one Roll and one MaxFile, too. "": the mapping's files go by themselves.
	Bundle string
	// Entry is the name of the mapping's file in a bundle's ZIP. $YYYYMMDD in it
	// stands for the day, in Zone, on which the ZIP is sealed.
	Entry string
	Zone  *time.Location // nil: UTC
}

// Load is the triggered ETL for the rows of one operation.
type Load struct{ ETL, Mode string }

// Roll says when an open file is complete: whichever limit is reached first. 0: there is
// no such limit.
type Roll struct {
	Rows  int64           // distinct keys, counted within about 3 %
	Bytes int64           // uncompressed rows of the distinct keys, as first seen
	Age   time.Duration   // since the first row
	At    []time.Duration // times of day on the clock of Zone, since midnight
}

func (r Roll) valid() bool {
	return r.Rows >= 0 && r.Bytes >= 0 && r.Age >= 0 && (r.Rows > 0 || r.Bytes > 0 || r.Age > 0 || len(r.At) > 0)
}

func (r Roll) equal(o Roll) bool {
	return r.Rows == o.Rows && r.Bytes == o.Bytes && r.Age == o.Age && slices.Equal(r.At, o.At)
}

func (m Mapping) validate() error {
	switch {
	case m.Name == "" || strings.ContainsAny(m.Name, `/\`):
		return errors.New("name: must be there and usable in a file name")
	case !m.Roll.valid():
		return fmt.Errorf("roll: rows, bytes and age must not be negative, and one of them or at must be there, are %+v", m.Roll)
	case m.MaxFile.Rows < 0 || m.MaxFile.Bytes < 0:
		return fmt.Errorf("maxFile: rows and bytes must not be negative, are %+v", m.MaxFile)
	case m.RetryFailed < 0:
		return fmt.Errorf("retryFailed: must not be negative, is %d", m.RetryFailed)
	case len(m.Loads) == 0:
		return errors.New("imports: none of upsert, patch, merge, create, delete names an ETL")
	case m.Bundle != "" && (m.Entry == "" || strings.ContainsAny(m.Bundle+m.Entry, `/\`)):
		return errors.New("bundle: it and the mapping's entry must be there and usable in file names")
	}
	return spool.KnownCompression(m.CSV.Compression)
}

// Rows encodes the mapping's writes.
func (m Mapping) Rows() (*spool.Rows, error) { return spool.NewRows(m.Key, m.Columns, m.CSV) }

// dateToken is what the interface has in patterns of file names for a day.
const dateToken = "$YYYYMMDD"

// entryName is the name of the mapping's file in a ZIP that is sealed at now.
func (m *Mapping) entryName(now time.Time) string {
	return strings.ReplaceAll(m.Entry, dateToken, now.In(m.zone()).Format("20060102"))
}

func (m *Mapping) zone() *time.Location { return cmp.Or(m.Zone, time.UTC) }

// member is one mapping on its queue: alone, or with the others of its bundle.
type member struct {
	Mapping
	queue    *tableQueue
	index    int                  // its place on the queue, and that of its journal in a generation
	accepts  [schemas.OpsEnd]bool // operations that it takes rows of: those with a Load
	rows     *spool.Rows          // encoding is guarded by the queue's lock; writing rows only reads and is not
	dualLane *dualLane            // what the other lane writes; of the present assignments
	waiting  *waitingRows         // for calls
}

func (m *member) loads(op schemas.Op) bool { return int(op) < len(m.accepts) && m.accepts[op] }

// takes says why the mapping takes no rows of op; nil: it does.
func (m *member) takes(op schemas.Op) error {
	if !m.loads(op) {
		return schemas.Invalid("", "op "+op.String()+" has no import in this mapping")
	}
	return nil
}

// add puts a mapping on a queue: that of its bundle, or one of its own.
func (b *Batcher) add(m Mapping) error {
	r, err := m.Rows()
	if err != nil {
		return err
	}
	added := &member{Mapping: m, rows: r, dualLane: new(dualLane), waiting: waiting.New[Pending](&b.waiting)}
	for op := range m.Loads {
		added.accepts[op] = true
	}
	b.byName[m.Name] = added
	for _, q := range b.queues {
		if m.Bundle != "" && q.mapping.Bundle == m.Bundle {
			return q.join(added)
		}
	}
	q := &tableQueue{mapping: m, name: m.Name, batcher: b, log: b.cfg.Log.With("mapping", m.Name), wake: make(chan struct{}, 1), callWake: make(chan struct{}, 1), landedWake: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
	if m.Bundle != "" {
		q.name, q.log, q.mapping.CSV.Compression = m.Bundle, b.cfg.Log.With("bundle", m.Bundle), "ZIP"
	}
	q.mapping.Loads = maps.Clone(m.Loads)
	q.members, added.queue = []*member{added}, q
	b.queues = append(b.queues, q)
	return nil
}

// join makes the mapping the last one of a bundle.
func (q *tableQueue) join(m *member) error {
	for op, load := range m.Loads {
		if has, ok := q.mapping.Loads[op]; ok && has.ETL != load.ETL {
			return fmt.Errorf("imports.%v: the files of bundle %s are loaded by one ETL, there are %s and %s", op, q.mapping.Bundle, has.ETL, load.ETL)
		} else if !ok {
			q.mapping.Loads[op] = load
		}
	}
	if !m.Roll.equal(q.mapping.Roll) {
		return fmt.Errorf("roll: the files of bundle %s are complete together, there are %+v and %+v", q.mapping.Bundle, q.mapping.Roll, m.Roll)
	}
	if m.MaxFile != q.mapping.MaxFile {
		return fmt.Errorf("maxFile: the mappings of bundle %s have their rows in one file, there are %+v and %+v", q.mapping.Bundle, q.mapping.MaxFile, m.MaxFile)
	}
	q.mapping.RetryFailed, q.mapping.KeepResults = max(q.mapping.RetryFailed, m.RetryFailed), q.mapping.KeepResults || m.KeepResults
	m.queue, m.index = q, len(q.members)
	q.members = append(q.members, m)
	return nil
}

// findParents finds the queues whose rows go before this one's. Within a bundle the
// order of its entries sees to that.
func (q *tableQueue) findParents() {
	for _, m := range q.members {
		for _, name := range m.After {
			if parent := q.batcher.byName[name]; parent != nil && parent.queue != q {
				q.parents = append(q.parents, parent.queue)
			}
		}
	}
}

// share is what an import of op holds of each of the queue's mappings; nil for a
// queue without a bundle. counts are their rows; nil: not known.
func (q *tableQueue) share(op schemas.Op, counts []int64) (members []Member) {
	if q.mapping.Bundle == "" {
		return nil
	}
	for i, m := range q.members {
		if !m.loads(op) {
			continue
		}
		one := Member{Mapping: m.Name, Table: m.Table}
		if counts != nil {
			one.Rows = counts[i]
		}
		members = append(members, one)
	}
	return members
}

// fits reports whether the write has become a row, and not a dead letter at once.
func (m *member) fits(w *schemas.Write) bool {
	if !m.loads(w.Op) {
		return false
	}
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	_, err := m.rows.AppendEntry(nil, w)
	return err == nil
}

// in reports whether the generation may hold a row of the mapping's key.
func (m *member) in(g *generation, hash uint64) bool { return g.journals[m.index].Has(hash) }

// anyDualLane reports whether the other lane writes to any of the queue's tables.
func (q *tableQueue) anyDualLane() bool {
	return slices.ContainsFunc(q.members, func(m *member) bool { return m.DualLane })
}
