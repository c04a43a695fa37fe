package kafka

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// Partition is one assignment of one partition to this member. What a lane
// does with its records is noted here; once the assignment has ended, notes
// are ignored, whoever makes them.
type Partition struct {
	Topic string
	ID    int32

	member string        // our id in the group when the partition was assigned
	begun  time.Time     // when it was assigned
	total  *atomic.Int64 // pending records of all live partitions of the source
	other  *other        // what is known of the other lane; nil: the partition need not know

	memory *Memory      // of all live partitions of the process
	held   atomic.Int64 // bytes of it that are this partition's

	taken takenWrites // by this lane, of the other one's

	mu        sync.Mutex
	live      bool // assigned
	loaded    bool // the offset and ledger committed before were read
	tracker   *ack.Tracker
	routes    agreement
	first     int64                 // where reading began
	polled    int64                 // offset after the last record polled, be it in the backlog
	read      int64                 // offset after the last record that the handler took
	logEnd    int64                 // where the log ended when the brokers were asked last
	ledger    ack.Ledger            // topic id, slots and halts; the rest is made at each commit
	imports   map[string]ack.Import // by table
	adopted   []Adopted
	covered   map[string]int64  // by table: records below are in a file that a former owner sent
	inError   map[string]int64  // by table: records below that are not confirmed are in error in a former import
	repeats   map[string]int64  // by table: rows of records below may be in it already, the partition having been set apart
	counted   map[string]string // by table: the attempt that took the last slot
	draining  bool              // about to be read again: no new records
	gap       gap               // of what retention has taken before it was confirmed
	cut       bool              // the brokers have lost records beyond cutAt: it is not committed beyond
	cutAt     int64
	claims    map[*Claim]struct{}
	committed commit // what the broker acknowledged last
	halts     map[string]string
	stuck     int  // pending records that have no other place: they are read again with the next assignment
	limit     int  // room of the ledger in the commit's metadata, in characters
	full      bool // the ledger is nearly too large: no new records until it shrinks

	fetched *commit // as the broker had it when the partition was assigned

	// The poll loop's own.
	backlog []*Record // polled but not taken by the handler
	waiting int64     // bytes of the backlog
	shed    int64     // the backlog was given back; so much room is to be there before it is fetched again
	paused  bool      // fetching is paused
	rest    time.Time // no fetching before
}

// commit is one offset commit of a partition: offset and metadata are written
// together.
type commit struct {
	offset   int64
	metadata string
}

// Done reports whether the record at offset was confirmed before a restart, or
// the assignment has ended: nothing is to be done for it.
func (p *Partition) Done(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.live || p.tracker.Done(offset)
}

// Stands is Done, and whether the record is one of those of which some were confirmed
// before a restart, and some were not.
func (p *Partition) Stands(offset int64) (done, restored bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		return true, false
	}
	return p.tracker.Done(offset), p.tracker.Restored(offset)
}

// SendAgain notes that the restored record at offset is sent once more.
func (p *Partition) SendAgain(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tracker.SendAgain(offset)
}

// Track makes the record at offset pending in e, in the order of offsets. e.Bytes
// says what it takes.
func (p *Partition) Track(e *ack.Entry, offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tracker.Track(e, offset)
	if p.live {
		p.total.Add(1)
		p.hold(e.Bytes)
	}
}

// Share notes that the pending record also waits for a file.
func (p *Partition) Share(e *ack.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tracker.Share(e)
}

// Confirm ends a pending record; its offset will be committed. It reports
// false if that makes no difference: the record was confirmed before, or the
// assignment has ended and the record is the next owner's.
func (p *Partition) Confirm(e *ack.Entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live || !p.tracker.Confirm(e) {
		return false
	}
	p.total.Add(-1)
	p.hold(-e.Bytes)
	return true
}

// Live reports whether this assignment of the partition lasts.
func (p *Partition) Live() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}

// Claim is the hold of one file on the records of one assignment.
type Claim struct {
	p         *Partition
	c         *ack.Claim
	importing bool  // its file is sealed; guarded by p.mu
	dead      int64 // records that have become dead letters; guarded by p.mu
	ended     bool  // it was confirmed; guarded by p.mu

	refused   ack.Ranges // records that have no other place; guarded by p.mu
	refusedIn []string   // files in which their rows are in error; guarded by p.mu
}

// Claim holds the watermark at offset until the claim is confirmed.
func (p *Partition) Claim(offset int64) *Claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &Claim{p: p, c: p.tracker.Claim(offset)}
	if p.claims == nil {
		p.claims = map[*Claim]struct{}{}
	}
	p.claims[c] = struct{}{}
	return c
}

// Extend takes the record at offset into the file.
func (c *Claim) Extend(offset int64) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.c.Extend(offset)
}

// Topic is the topic of the records.
func (c *Claim) Topic() string { return c.p.Topic }

// Records is how many records the claim holds, for an adopted import at most.
func (c *Claim) Records() int64 {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.c.Records()
}

// Holds reports whether the claim may hold the record: it holds some of p from
// before to after it.
func (c *Claim) Holds(p *Partition, offset int64) bool {
	if c.p != p {
		return false
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	span := c.c.Span()
	return span.From <= offset && offset < span.To
}

// Live reports whether the assignment lasts that the claim was made in.
func (c *Claim) Live() bool { return c.p.Live() }

// Halt stops reading the partition for a reason that a person must see. Each
// cause, a mapping or a record that cannot go on, has its own reason, the
// first one given.
func (p *Partition) Halt(cause, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.halts == nil {
		p.halts = map[string]string{}
	}
	if p.halts[cause] == "" {
		p.halts[cause] = reason
	}
}

// Resume takes a halt back.
func (p *Partition) Resume(cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.halts, cause)
}

// wantsPause reports whether fetching is to be paused.
func (p *Partition) wantsPause() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.halts) > 0 || p.full || p.draining || p.ledger.Routes.Hold
}

// drain takes no new records, for the assignment is about to begin again.
func (p *Partition) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
}

// end ends the assignment: from here on nothing changes its offset any more.
func (p *Partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.hold(-p.held.Load())
		p.memory.partitions.Add(-1)
	}
	if p.live && p.loaded {
		p.total.Add(-int64(p.tracker.Pending()))
	}
	p.live = false
}

// found notes what the broker had committed before this assignment.
func (p *Partition) found(c commit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetched = &c
}

func (p *Partition) lastFound() *commit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched
}

// begin lets records and commits pass: the ledger was read and the client
// stands where it says.
func (p *Partition) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loaded = true
}

// ready reports whether records may be handed on: the ledger was read.
func (p *Partition) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live && p.loaded
}

// noted notes that the records below next were polled.
func (p *Partition) noted(next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled = max(p.polled, next)
}

// advance notes that the records below next were taken by the handler.
func (p *Partition) advance(next int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tracker.Advance(next)
	p.read = next
}

// Read is the offset after the last record that the handler took. It may be
// below the committed one at first, on a topic that is followed.
func (p *Partition) Read() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read
}

// position is the offset after the last record that the handler has, or will
// be offered.
func (p *Partition) position() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.polled, p.read)
}

// PartitionStatus is a partition as an operator sees it.
type PartitionStatus struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Committed int64    `json:"committed"` // -1: nothing yet
	Watermark int64    `json:"watermark"`
	Position  int64    `json:"position"`           // offset after the last record taken
	Lag       int64    `json:"lag"`                // offsets from the watermark to the log's end; -1: not known
	Pending   int      `json:"pending"`            // records on their way one by one
	Buffered  int64    `json:"buffered,omitzero"`  // records in an open file
	Importing int64    `json:"importing,omitzero"` // records in a file on its way
	Halted    []string `json:"halted,omitempty"`
	Waiting   string   `json:"waiting,omitempty"` // what of the other lane its records wait for
}

// Status describes the partition; ok is false while its ledger is being read.
func (p *Partition) Status() (st PartitionStatus, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st = PartitionStatus{Topic: p.Topic, Partition: p.ID, Committed: -1, Watermark: -1, Position: -1}
	st.Halted = slices.Sorted(maps.Values(p.halts))
	if !p.loaded {
		return st, false
	}
	st.Waiting = p.routes.waiting
	st.Committed, st.Watermark = p.committed.offset, p.tracker.Watermark()
	u := p.unconfirmed()
	st.Position, st.Pending, st.Buffered, st.Importing = p.tracker.Next(), u.Pending, u.Buffered, u.Importing
	return st, true
}
