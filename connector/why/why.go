// Package why tells of the records of a key where each of them is: confirmed, waiting and for
// what, superseded, skipped or a dead letter. It compares what the records mean under a
// configuration with what the lanes have committed, and what is in the dead-letter topic and,
// if there is one, the receipts topic.
//
// It knows records, ledgers, dead letters and receipts that were read before. It knows nothing of how
// they are read.
package why

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/pause"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Verdict is where a record is.
type Verdict string

// The verdicts. What cannot be told for sure is Unknown.
const (
	Confirmed  Verdict = "confirmed"
	DeadLetter Verdict = "dead_letter"
	Waiting    Verdict = "waiting"
	Superseded Verdict = "superseded"
	Skipped    Verdict = "skipped"
	Unknown    Verdict = "unknown"
)

// Meanings are what each verdict says, for people.
var Meanings = words.Table{
	{"  " + string(Confirmed), "its lane has committed it, and it is no dead letter: the service took the write, or a newer write of the key that it was merged into or that made it void; or it said what the last call for its key had said (unchanged: skip)"},
	{"  " + string(DeadLetter), "it is in the dead-letter topic; state says whether that has ended: open, tried, done (replayed: applied, or a newer record had replaced it) or discarded"},
	{"  " + string(Waiting), "its lane has not committed it, and the reason says what is known of why; the service may have the write already"},
	{"  " + string(Superseded), "it waits, and a newer record of the key that is confirmed has replaced it whole: the row does not end as it says"},
	{"  " + string(Skipped), "a route skips it: nothing is written"},
	{"  " + string(Unknown), "it cannot be told, and the reason says why: most often its lane has committed it under other routes"},
}

// Report is what became of the keys' records.
type Report struct {
	Mapping string    `json:"mapping"`
	Table   string    `json:"table"`
	At      time.Time `json:"at"`             // of the ledgers; records that came later than the question are not in it
	Since   time.Time `json:"since,omitzero"` // zero: all that the topics hold
	Read    int64     `json:"read"`           // records that were looked at
	Notes   []string  `json:"notes"`          // what of the past cannot be seen
	Keys    []Key     `json:"keys"`
}

// Key is what became of the records of one key.
type Key struct {
	Key     string   `json:"key"`     // as it was asked for; "" if it was asked for by a record or the service's id, and values are not shown
	Records []Record `json:"records"` // by time, the oldest first; those of a partition by offset
	Newest  int      `json:"newest"`  // of Records, the one that says what the row is to be; -1: none
	Answer  string   `json:"answer"`
}

// Record is where one record is.
type Record struct {
	Topic     string                     `json:"topic"`
	Partition int32                      `json:"partition"`
	Offset    int64                      `json:"offset"`
	Time      time.Time                  `json:"time"`
	Op        string                     `json:"op,omitempty"`      // of the write; "" where there is none
	Columns   []string                   `json:"columns,omitempty"` // of the write, as a file's header has them
	Values    map[string]json.RawMessage `json:"values,omitempty"`  // by column, if they are to be shown
	Route     *int                       `json:"route,omitempty"`   // of the mapping's routes that matched, from 1
	Lane      string                     `json:"lane"`
	Verdict   Verdict                    `json:"verdict"`
	Why       string                     `json:"why"`
	Until     time.Time                  `json:"until,omitzero"` // of a wait; zero: not known
	// ReplacedBy is the offset of the next record of the key in the partition that leaves
	// nothing of this write in the row; nil: there is none that is sure to be applied.
	ReplacedBy *int64  `json:"replacedBy,omitempty"`
	Letter     *Letter `json:"letter,omitempty"`
	// Receipt is how the record ended; nil: none was found, or there are no receipts.
	Receipt *Receipt `json:"receipt,omitempty"`
	// ByRecordKey: the value cannot be read, or names no row; the record's own key does.
	ByRecordKey bool `json:"byRecordKey,omitempty"`
}

// Letter is a dead letter.
type Letter struct {
	Letter       string `json:"letter"` // partition:offset in the dead-letter topic
	State        string `json:"state"`
	Ended        bool   `json:"ended"`
	Reason       string `json:"reason"`
	Status       int    `json:"status,omitempty"` // HTTP
	Execution    string `json:"execution,omitempty"`
	Attempts     int    `json:"attempts,omitempty"` // replays after which it was here again
	Discarded    string `json:"discarded,omitempty"`
	MayBeInTable bool   `json:"mayBeInTable,omitempty"`
	Message      string `json:"message"`

	Received *deadletter.Received `json:"-"`
}

// Ledger is what a lane's group has committed of a partition.
type Ledger struct {
	Committed bool
	Offset    int64
	ack.Ledger
	// Reason is why no more than the offset, or with Committed false not even that, says
	// anything; "": there is none.
	Reason string
	// Foreign says that another tool has set the offset: below it not all need be confirmed.
	Foreign bool
}

// LedgerOf reads a commit; id is the topic's present one.
func LedgerOf(c cluster.Commit, id ack.TopicID) Ledger {
	ledger, err := ack.Decode(c.Metadata, c.Offset)
	switch {
	case c.Metadata == "" || errors.Is(err, ack.ErrForeign):
		return Ledger{Committed: true, Offset: c.Offset, Foreign: true, Reason: "another tool, or another version of feedsink, has set the group's offset"}
	case err != nil:
		return Ledger{Committed: true, Offset: c.Offset, Reason: err.Error()}
	case ledger.Topic.Differs(id):
		return Ledger{Reason: "its ledger is of an earlier topic of this name; it reads this one from its start"}
	}
	return Ledger{Committed: true, Offset: c.Offset, Ledger: ledger}
}

// confirmed reports whether the ledger shows the record as confirmed.
func (l *Ledger) confirmed(offset int64) bool {
	return l.Committed && (offset < l.Offset || l.Done.Contains(offset))
}

// State is what was read of Kafka and of a running sink after the records were.
type State struct {
	Router  *router.Router
	Mapping *router.Compiled
	Groups  map[schemas.Lane]string
	Ledgers map[schemas.Lane]map[cluster.TopicPartition]Ledger
	Letters map[cluster.RecordPlace][]Letter // of the records that were found
	// Receipts are of the records that were found, in any order; nil: none were read.
	Receipts map[cluster.RecordPlace][]receipt.Receipt
	Pauses   *pause.Known
	Waits    []observe.Wait // of the members that could be asked
	Due      time.Time      // when they send the mapping's open file at the latest; zero: not known
	// Tables are the names by which ledgers know the mapping's files: its table's, and
	// those of its bundle.
	Tables []string
	Values bool // are shown, and what the service said about them
}
