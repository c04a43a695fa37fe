package deadletter

import (
	"errors"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Received is a dead letter as it lies in the dead-letter topic.
type Received struct {
	Reason
	// Record is the one that could not be processed, as it was: its bytes, and
	// the topic, partition and offset it came from; see NoRecord.
	Record    *Record
	Connector string // the deployment that posted it: its configured consumer group
	Partition int32  // where the dead letter itself lies
	Offset    int64
}

// ErrForeign says that a record of the dead-letter topic is no dead letter of feedsink.
var ErrForeign = errors.New("not a dead letter of feedsink")

// NoRecord reports whether the dead letter is of no record: it is a row of an import that
// the service put in error and that matches no record.
func (l *Received) NoRecord() bool { return l.Record.Topic == "" }

// firstHeader opens the headers that a post appends, connectorHeader those of a
// dead letter without coordinates.
const (
	firstHeader     = "__connect.errors.topic"
	connectorHeader = "__connect.errors.connector.name"
)

// Open reads a record of the dead-letter topic. Only the headers at its end are
// the dead letter's: a record that had been a dead letter elsewhere before keeps what
// it came with. The only error is ErrForeign. The result shares r's memory.
func Open(r *Record) (*Received, error) {
	at := last(r, firstHeader)
	if at < 0 && len(r.Headers) > 0 && r.Headers[0].Key == connectorHeader {
		at = 0
	}
	if at < 0 {
		return nil, ErrForeign
	}
	l := &Received{Partition: r.Partition, Offset: r.Offset, Record: &kgo.Record{
		Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers[:at:at],
	}}
	for _, h := range r.Headers[at:] {
		if !l.read(h.Key, string(h.Value)) {
			return nil, ErrForeign
		}
	}
	if l.NoRecord() && (l.Connector == "" || l.Execution == "") {
		return nil, ErrForeign
	}
	return l, nil
}

// last is the index of the last header of that name; -1 without one.
func last(r *Record, name string) int {
	at := len(r.Headers) - 1
	for at >= 0 && r.Headers[at].Key != name {
		at--
	}
	return at
}

// read takes one of the dead letter's headers; false if it says what no dead letter says.
func (l *Received) read(key, value string) bool {
	number := func(bits int) int64 {
		n, err := strconv.ParseInt(value, 10, bits)
		if err != nil || n < 0 {
			return -1
		}
		return n
	}
	switch key {
	case firstHeader:
		l.Record.Topic = value
		return value != ""
	case "__connect.errors.partition":
		l.Record.Partition = int32(number(32))
		return l.Record.Partition >= 0
	case "__connect.errors.offset":
		l.Record.Offset = number(64)
		return l.Record.Offset >= 0
	case connectorHeader:
		l.Connector = value
	case "__connect.errors.stage":
		l.Stage = Stage(value)
	case "__connect.errors.exception.class.name":
		l.Code = value
	case "__connect.errors.exception.message":
		l.Message = value
	case "feedsink.mapping":
		l.Mapping = value
	case "feedsink.table":
		l.Table = value
	case "feedsink.lane":
		l.Lane = value
	case "feedsink.http.status":
		l.Status = int(max(number(16), 0))
	case "feedsink.execution":
		l.Execution = value
	case attemptsHeader:
		l.Attempts = int(max(number(32), 0))
	case mayBeInTableHeader:
		l.MayBeInTable = value == strconv.FormatBool(true)
	default: // of a newer version
		return strings.HasPrefix(key, "feedsink.") || strings.HasPrefix(key, "__connect.errors.")
	}
	return true
}
