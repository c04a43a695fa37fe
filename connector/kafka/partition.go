package kafka

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/memory"
)

// Partition is one assignment of one partition to this member. What a lane
// does with its records is noted here; once the assignment has ended, notes
// are ignored.
//
// Its exported methods may be called from any goroutine, unless they say otherwise,
// and none of them waits for a broker.
type Partition struct {
	Topic string
	ID    int32

	member     string        // our id in the group when the partition was assigned
	assignedAt time.Time     // when it was assigned
	total      *atomic.Int64 // pending records of all partitions of the source
	times      func() []time.Time
	other      *otherLane // what is known of the other lane; nil: the partition need not know

	memory *memory.Memory // of all partitions of the process
	held   atomic.Int64   // bytes of it that are this partition's

	unknownID atomic.Int32 // commits in a row that were refused because no topic has the id

	taken takenWrites // by this lane, of the other one's

	mu        sync.Mutex
	state     state      // changed in state.go only
	causes    pauseCause // ledgerFull, readAgain and onRequest; the others follow from the fields that tell more
	tracker   *ack.Tracker
	routes    agreement
	first     int64                 // where reading began
	polled    int64                 // offset after the last record polled, be it in the backlog
	read      int64                 // offset after the last record that the handler took
	epoch     int32                 // leader epoch of the last record polled; -1: not known
	logEnd    int64                 // where the log ended when the brokers were asked last
	endThen   int64                 // where it ended when the partition was assigned
	behind    time.Time             // since when it has gone on beyond polled, with nothing fetched; zero: it does not
	untaken   time.Time             // timestamp of the first record that was polled and that the handler did not take; zero: none
	adding    int64                 // offset behind the record of which several rows are put into files; 0: none
	taking    int64                 // offset of the record that the handler takes now
	written   time.Time             // its timestamp
	kinds     []any                 // what it is counted as, in the files that take it
	ledger    ack.Ledger            // topic id, slots, halts and pauses; the rest is made at each commit
	imports   map[string]ack.Import // by table
	adopted   []Adopted
	covered   map[string]int64 // by table: records below are in a file that a former owner sent
	inError   map[string]int64 // by table: records below that are not confirmed are in error in a former import
	repeats   map[string]int64 // by table: rows of records below may be in it already, the partition having been set apart
	attempts  ack.Attempts
	noRoom    map[string]bool // tables of which the ledger does not take the next import
	gap       ack.Gap         // of what retention has taken before it was confirmed
	cut       int64           // where the brokers have cut the log: nothing beyond is committed; uncut: they have not
	claims    map[*Claim]struct{}
	committed commit            // what the broker acknowledged last
	standing  time.Time         // since when it lags and the committed offset does not move
	halts     map[string]string // by cause: reasons that a person must see
	stuck     int               // pending records that have no other place: they are read again with the next assignment
	rows      int               // pending records whose rows wait for calls
	limit     int               // room of the ledger in the commit's metadata, in characters
	fetched   *commit           // as the broker had it when the partition was assigned

	// The poll loop's own.
	backlog []*Record  // polled but not taken by the handler
	waiting int64      // bytes of the backlog
	beside  int64      // bytes of what was polled last, all of which one record keeps that is kept; 0: none is
	full    bool       // the handler has no room for its records
	shed    int64      // the backlog was given back; so much room is to be there before it is fetched again
	paused  pauseCause // why the client does not fetch it; 0: it does
	rest    time.Time  // no fetching before
}

// uncut is the cut of a log that is whole.
const uncut = math.MaxInt64

func newPartition(topic string, id int32, member string, st state) *Partition {
	return &Partition{
		Topic: topic, ID: id, member: member, assignedAt: time.Now(), state: st, limit: ack.MetadataLimit, cut: uncut,
		imports: map[string]ack.Import{}, covered: map[string]int64{}, inError: map[string]int64{}, repeats: map[string]int64{},
		attempts: ack.Attempts{}, noRoom: map[string]bool{}, claims: map[*Claim]struct{}{}, halts: map[string]string{},
	}
}

// Assigned is when the assignment began.
func (p *Partition) Assigned() time.Time { return p.assignedAt }

// Done reports whether the record at offset was confirmed before a restart, or
// the assignment has ended: nothing is to be done for it.
func (p *Partition) Done(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == ended || p.tracker.Done(offset)
}

// Stands is Done, and whether the record is one of those of which some were confirmed
// before a restart, and some were not.
func (p *Partition) Stands(offset int64) (done, restored bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == ended {
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
	if p.state != ended {
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
	if p.state == ended || !p.tracker.Confirm(e) {
		return false
	}
	p.total.Add(-1)
	p.hold(-e.Bytes)
	return true
}

// Refused notes that the record is about to end as a dead letter, alone: with all of its writes.
func (p *Partition) Refused(offset int64, alone bool) {
	passed := p.OtherWatermark()
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.tracker.Watermark(); p.other == nil || own < passed {
		passed = own
	}
	p.ledger.Refuse(offset, passed, alone)
}

// Ended reports whether the record was taken and is not pending, and may be a dead letter.
func (p *Partition) Ended(offset int64) (ended, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.read && !p.tracker.Waits(offset), p.ledger.Refused.Contains(offset)
}

// HaltAtRecord halts the partition at a pending record that has no other place.
func (p *Partition) HaltAtRecord(reason string) {
	p.Halt("record", reason)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck++
}

// underWay is how many pending records end by themselves.
func (p *Partition) underWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != reading {
		return 0
	}
	return p.tracker.Pending() - p.stuck - p.rows
}

// RowWaits notes that a pending record's row waits for a call, or does no more: the
// handler drops such a row when the partition is released.
func (p *Partition) RowWaits(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if yes {
		p.rows++
	} else {
		p.rows--
	}
}

// polledTo notes that the records up to last were polled.
func (p *Partition) polledTo(last *Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled, p.epoch, p.behind = max(p.polled, last.Offset+1), last.LeaderEpoch, time.Time{}
}

// takenTo notes that the records below next were taken by the handler.
func (p *Partition) takenTo(next int64) {
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
