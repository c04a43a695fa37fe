package audit

import (
	"context"
	"fmt"
	"time"
)

// Evidence is what an audit reads. The offsets of the groups must have been read first, then
// the ends of receipts, of dead letters and of the topics, in this order: so each says at
// least as much as the one before it was about.
type Evidence struct {
	Read       time.Time   // when the groups' offsets were read
	Partitions []Partition // of all topics of the mappings
	// Receipts, Letters and Records call each in the order of offsets in each partition. What
	// each is given is valid until it returns; its error ends the reading.
	Receipts      Messages
	ReceiptsTopic string
	Letters       Messages // nil: there is no dead-letter topic
	// LettersGone says that the dead-letter topic may have lost letters: a beginning that
	// was deleted, or compaction.
	LettersGone bool
	// ReceiptsGone is when the latest of the receipts was written that the receipts topic
	// may have lost; zero: it has all.
	ReceiptsGone time.Time
	// Records tells of the records of a partition from offset from up to, not including,
	// to. It returns below which offset
	// it is certain that there are no others. written is in milliseconds of Unix.
	Records func(ctx context.Context, p *Partition, from, to int64, each func(offset, written int64) error) (certain int64, err error)
}

// Messages reads a topic.
type Messages func(ctx context.Context, each func(*Message) error) error

// Message is a Kafka record of the receipts topic or the dead-letter topic.
type Message struct {
	Partition  int32
	Offset     int64
	Key, Value []byte
	Headers    []Header
}

// Header is a header of a message.
type Header struct {
	Key   string
	Value []byte
}

// Partition is a partition of a topic that mappings read.
type Partition struct {
	Topic      string
	ID         int32
	Start, End int64    // of its log; an open transaction ends it
	TopicID    [16]byte // zero: not known
	Compacted  bool
	Lanes      []Lane     // that the configuration's routes lead to; none: not known
	Commits    [2]*Commit // by lane; nil: the group has committed nothing
}

// String is the place as messages name it: topic[3].
func (p *Partition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.ID) }

// Commit is what a group has committed for a partition.
type Commit struct {
	Offset   int64
	Metadata string
}

// Lane is a way to the service, and a consumer group.
type Lane uint8

// The lanes, in the order of the schema.
const (
	Immediate Lane = iota
	Batch
)

var laneNames = [...]string{"immediate", "batch"}

// String is the lane's word in receipts and dead letters, and the end of its group's name.
func (l Lane) String() string { return laneNames[l] }

// Lanes are all lanes.
var Lanes = [...]Lane{Immediate, Batch}

// Table is how the imports of a mapping are counted.
type Table struct {
	Name   string // as the ledger has it: profile/NAME or custom/NAME
	Home   string // the topic whose partition 0 keeps the count
	PerDay int    // imports that the table may have in a day
	Zone   *time.Location
}
