package audit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/avro"
)

// wire is a receipt as the schema has it.
type wire struct {
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
}

// outcome is how a part ended.
type outcome uint8

const (
	called outcome = iota
	imported
	merged
	superseded
	absent
	skipped
	deadLetter
)

var outcomeNames = [...]string{"called", "imported", "merged", "superseded", "absent", "skipped", "dead_letter"}

var errMore = errors.New("more follows")

func openReceipt(schema *avro.Schema, value []byte) (out wire, err error) {
	rest, err := schema.DecodeSingleObject(value, &out)
	if err == nil && len(rest) > 0 {
		err = errMore
	}
	return out, err
}

// shape is what is wrong with a receipt by itself; "": nothing.
func (r *wire) shape() string {
	switch {
	case r.Parts < 1 || r.Part < 0 || r.Part >= r.Parts:
		return fmt.Sprintf("it is for part %d of %d, counted from 0", r.Part, r.Parts)
	case r.Offset < 0:
		return "its offset is below 0"
	case r.Outcome == "imported" && (r.Lane != Batch.String() || r.Execution == "" || r.Row != "loaded"):
		return fmt.Sprintf("the outcome is imported, with lane %s, execution %q and row %s", r.Lane, r.Execution, r.Row)
	case r.Outcome != "imported" && r.Outcome != "dead_letter" && r.Execution != "":
		return fmt.Sprintf("the outcome is %s, with execution %q", r.Outcome, r.Execution)
	case r.Outcome != "skipped" && r.Outcome != "dead_letter" && r.Mapping == "":
		return fmt.Sprintf("the outcome is %s, with no mapping", r.Outcome)
	case r.Ended.Before(r.Assigned.Add(-clockSlack)):
		return fmt.Sprintf("it ended at %s, before the partition was assigned at %s", stamp(r.Ended), stamp(r.Assigned))
	case r.Started.After(r.Ended.Add(clockSlack)):
		return fmt.Sprintf("its execution began at %s, after it ended at %s", stamp(r.Started), stamp(r.Ended))
	}
	return ""
}

// clockSlack is how far a machine's clock may be set back without a receipt counting as
// impossible.
const clockSlack = time.Minute

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// executions are those that loaded a row: the last began when the receipt says.
func (r *wire) executions() []string { return strings.Split(r.Execution, ",") }

// letter is a dead letter as far as its headers tell of a record.
type letter struct {
	topic         string
	partition     int32
	offset        int64
	mapping, lane string
	replayed      bool
}

// openLetter reads the headers of a dead letter. ok is false for one that is of no record,
// and for what is no dead letter.
func openLetter(headers []Header, connector string) (l letter, ok bool) {
	at := len(headers) - 1 // what was a dead letter before keeps the headers it came with
	for at >= 0 && headers[at].Key != "__connect.errors.topic" {
		at--
	}
	if at < 0 {
		return l, false
	}
	partition, offset, ours := int64(-1), int64(-1), false
	for _, h := range headers[at:] {
		value := string(h.Value)
		switch h.Key {
		case "__connect.errors.topic":
			l.topic = value
		case "__connect.errors.partition":
			partition = number(value)
		case "__connect.errors.offset":
			offset = number(value)
		case "__connect.errors.connector.name":
			ours = value == connector
		case "feedsink.mapping":
			l.mapping = value
		case "feedsink.lane":
			l.lane = value
		case "feedsink.replay.attempts":
			l.replayed = number(value) > 0
		}
	}
	l.partition, l.offset = int32(partition), offset
	return l, ours && partition >= 0 && offset >= 0
}

// number is -1 for what is none.
func number(text string) int64 {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}
