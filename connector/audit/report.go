package audit

import (
	"cmp"
	"slices"
	"time"
)

// Kind is what is wrong at a place.
type Kind string

// The kinds of gaps.
const (
	NoReceipt     Kind = "no_receipt"      // a record below the commits has none
	PartMissing   Kind = "part_missing"    // it has not one for each of its parts
	Doubled       Kind = "doubled"         // a part ended twice in one assignment
	BothLanes     Kind = "both_lanes"      // both lanes say that they ended a part
	PartsDiffer   Kind = "parts_differ"    // receipts disagree about how many parts a record has
	NoSuchRecord  Kind = "no_such_record"  // a receipt or dead letter is of a record that does not exist
	Impossible    Kind = "impossible"      // a receipt says what no member writes
	Unreadable    Kind = "unreadable"      // what lies in the receipts topic is no receipt
	NoDeadLetter  Kind = "no_dead_letter"  // a receipt says that there is a dead letter, and there is none
	Order         Kind = "order"           // an older write of a key came after a newer one
	TooManySlots  Kind = "too_many_slots"  // a table had more imports in a day than it has slots
	SlotForgotten Kind = "slot_forgotten"  // an import is not counted in the ledger
	LedgerLost    Kind = "ledger_lost"     // the metadata of a commit cannot be read, or is none
	OtherLog      Kind = "other_log"       // a commit or its ledger is of a log that is gone
	Removed       Kind = "removed_unended" // the log has lost records before they ended
)

// advice is what to do, by kind.
var advice = map[Kind]string{
	NoReceipt:     "Look whether the offset was set by hand or receipts were removed. If not, the record may never have been written: feedsink verify tells for table records, and backfill sends the newest states again",
	PartMissing:   "See feedsink why --record for what the record means. If no routes were changed at that time, feedsink backfill sends the newest states of its mapping again",
	Doubled:       "Look for two members that the group knew as one (kafka.instanceId), and for receipts that others wrote. Upserts and patches are as they should be; of creates, feedsink verify tells what is in the table",
	BothLanes:     "Look whether all members run with the same mappings; feedsink verify tells whether the table has the newest states",
	PartsDiffer:   "Look whether all members run with the same mappings, and who else may write to the receipts topic",
	NoSuchRecord:  "Look who else may write to the topic, and whether the topic of the record was created anew; --from leaves out what was written before",
	Impossible:    "Look who else may write to the receipts topic, and at the member's clock",
	Unreadable:    "Look who else may write to the receipts topic, and whether this feedsink is older than the members",
	NoDeadLetter:  "Look whether dead letters were removed by hand; feedsink backfill sends the newest state of the record's key again",
	Order:         "Look at the clock of the member, which may have been set back; feedsink verify tells whether the table has the newest state, and --repair sends it",
	TooManySlots:  "Look whether slotsPerDay was lowered on that day, and who else starts imports of the table",
	SlotForgotten: "Look whether the batch group's offsets were set by hand: what is left of the day may be used twice",
	LedgerLost:    "If an offset was set by hand this is to be expected, and ends with the lane's next commit; else look who else commits for the group",
	OtherLog:      "The topic was created anew, or has lost its end. See the lane's halt on /status",
	Removed:       "Retention was faster than the lane: give the topic more, and have its source send these records again",
}

// Gap is something that is wrong, and what to do.
type Gap struct {
	Kind      Kind   `json:"kind"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	What      string `json:"what"`
	Do        string `json:"do"`
}

func (g *Gap) compare(o *Gap) int {
	return cmp.Or(cmp.Compare(g.Topic, o.Topic), cmp.Compare(g.Partition, o.Partition), cmp.Compare(g.Offset, o.Offset), cmp.Compare(g.Kind, o.Kind))
}

// Judged is what of a partition was judged.
type Judged struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Committed is what each lane has committed; a lane that reads the topic and has
	// committed nothing is missing.
	Committed map[string]int64 `json:"committed"`
	// From is the first record that had to have receipts: all from here on, or those that
	// were written since Since. -1: none had to.
	From    int64     `json:"from"`
	Since   time.Time `json:"since,omitzero"`
	To      int64     `json:"to"`      // below, and beyond where the ledgers say so, records are confirmed
	Ended   int64     `json:"ended"`   // records that ended exactly once
	Before  int64     `json:"before"`  // confirmed, and not judged: from before there were receipts
	Unsure  int64     `json:"unsure"`  // confirmed, and not judged: on their way while routes changed
	Waiting int64     `json:"waiting"` // offsets that are not confirmed by every lane that reads the topic
}

// Report is the result of an audit.
type Report struct {
	At          time.Time        `json:"at"`
	From        string           `json:"from,omitempty"` // as it was asked for
	Receipts    int64            `json:"receipts"`
	Outcomes    map[string]int64 `json:"outcomes"` // receipts by how their parts ended
	Repeated    int64            `json:"repeated"` // receipts of a part that has another one: after a crash or a move
	DeadLetters int64            `json:"deadLetters"`
	Imports     int64            `json:"imports"` // executions that receipts name
	Keys        int64            `json:"keys"`    // whose order was judged; 0 without receipts.keyFile
	Partitions  []Judged         `json:"partitions"`
	Notes       []string         `json:"notes"`
	Gaps        []Gap            `json:"gaps"`  // the first thousand, by topic, partition and offset
	Kinds       map[string]int64 `json:"kinds"` // of all gaps
}

// mostGaps are kept of those that are found; all are counted.
const mostGaps = 1000

// First is the first gap; nil: there is none.
func (r *Report) First() *Gap {
	if len(r.Gaps) == 0 {
		return nil
	}
	return &r.Gaps[0]
}

func (r *Report) gap(g Gap) {
	g.Do = advice[g.Kind]
	r.Kinds[string(g.Kind)]++
	if r.Gaps = append(r.Gaps, g); len(r.Gaps) > 2*mostGaps {
		r.sort()
	}
}

// sort keeps the first gaps.
func (r *Report) sort() {
	slices.SortStableFunc(r.Gaps, func(a, b Gap) int { return a.compare(&b) })
	r.Gaps = r.Gaps[:min(len(r.Gaps), mostGaps)]
}

// Has reports whether there is such a gap, among the first thousand.
func (r *Report) Has(kind Kind, topic string, partition int32, offset int64) bool {
	return slices.ContainsFunc(r.Gaps, func(g Gap) bool {
		return g.Kind == kind && g.Topic == topic && g.Partition == partition && g.Offset == offset
	})
}
