// Package receipt writes for each event that has ended where, how and when that was:
// a small Avro record in the receipts topic, without customers' data.
//
// It knows coordinates, outcomes and the topic. It knows nothing about mappings at
// work, lanes or the service, and reads no receipts but one at a time.
package receipt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/feedsink/feedsink/schemas"
)

// Receipt is what became of one part of a record. Its fields are described in
// schemas/receipt.avsc.
type Receipt struct {
	Topic       string
	Partition   int32
	Offset      int64
	Part, Parts int
	Lane        schemas.Lane
	Mapping     string
	Op          schemas.Op // 0: none
	Outcome     Outcome
	Status      int
	Execution   string
	Row         Row
	Written     time.Time
	Assigned    time.Time
	Started     time.Time // zero: not known, or none
	Ended       time.Time
	Key         Key
}

// Key is the keyed hash of a row's key. The zero Key is none.
type Key struct {
	ID   string // of the secret; "": no key
	Hash [HashSize]byte
}

// HashSize is how long the hash of a key is, in bytes.
const HashSize = 16

// Outcome is how the part ended.
type Outcome uint8

// The outcomes, in the order of the schema.
const (
	Called Outcome = iota
	Imported
	Merged
	Superseded
	Absent
	Skipped
	DeadLetter
)

var outcomes = [...]string{"called", "imported", "merged", "superseded", "absent", "skipped", "dead_letter"}

// String is the outcome's word in the schema.
func (o Outcome) String() string { return outcomes[o] }

// Row is the state of a row in its execution.
type Row uint8

// The states, in the order of the schema.
const (
	NoRow Row = iota
	Loaded
	InError
)

var rows = [...]string{"none", "loaded", "error"}

// String is the state's word in the schema.
func (r Row) String() string { return rows[r] }

// ops are the ops in the order of the schema.
var ops = [...]schemas.Op{0, schemas.Upsert, schemas.Patch, schemas.Merge, schemas.Create, schemas.Delete}

// header is the start of each receipt: two bytes of Avro's single-object encoding and the
// schema's fingerprint.
var header = func() []byte {
	text, err := schemas.Files.ReadFile("receipt.avsc")
	if err != nil {
		panic(err) // it is part of the binary
	}
	schema := avro.MustParse(string(text))
	// The fingerprint is written with its lowest byte first.
	fingerprint := schema.Fingerprint(avro.NewRabin())
	head := []byte{0xc3, 0x01}
	for i := range fingerprint {
		head = append(head, fingerprint[len(fingerprint)-1-i])
	}
	return head
}()

// Append appends the receipt as it is written to Kafka.
func (r *Receipt) Append(dst []byte) []byte {
	var w written
	w.take(r, false)
	return w.append(dst)
}

// written is the text of a receipt in parts: most receipts of a file are like the one before, and
// differ from it in offset, in the time that their event was written, and in the key's hash alone.
type written struct {
	source, end, rest []byte
	offset, time      int64
}

// take makes it that of the next receipt, which may be like the last.
func (w *written) take(r *Receipt, like bool) {
	w.offset, w.time = r.Offset, millis(r.Written)
	if like {
		return
	}
	w.source = appendText(append(w.source[:0], header...), r.Topic)
	w.source = appendLong(w.source, int64(r.Partition))
	w.end = r.appendEnd(w.end[:0])
	w.rest = appendLong(w.rest[:0], millis(r.Assigned))
	w.rest = appendLong(w.rest, millis(r.Started))
	w.rest = appendLong(w.rest, millis(r.Ended))
	w.rest = appendText(w.rest, r.Key.ID)
}

// size is how many bytes append appends.
func (w *written) size() int {
	return len(w.source) + kbin.VarlongLen(w.offset) + len(w.end) + kbin.VarlongLen(w.time) + len(w.rest)
}

func (w *written) append(dst []byte) []byte {
	dst = appendLong(append(dst, w.source...), w.offset)
	dst = appendLong(append(dst, w.end...), w.time)
	return append(dst, w.rest...)
}

// appendEnd appends what is between offset and time: how the part ended.
func (r *Receipt) appendEnd(dst []byte) []byte {
	dst = appendLong(dst, int64(r.Part))
	dst = appendLong(dst, int64(r.Parts))
	dst = appendLong(dst, int64(r.Lane-schemas.Immediate))
	dst = appendText(dst, r.Mapping)
	dst = appendLong(dst, int64(max(slices.Index(ops[:], r.Op), 0)))
	dst = appendLong(dst, int64(r.Outcome))
	dst = appendLong(dst, int64(r.Status))
	dst = appendText(dst, r.Execution)
	return appendLong(dst, int64(r.Row))
}

func appendText(dst []byte, s string) []byte {
	return append(appendLong(dst, int64(len(s))), s...)
}

func appendLong(dst []byte, v int64) []byte {
	if 0 <= v && v < 64 { // most are: a byte
		return append(dst, byte(v)<<1)
	}
	return binary.AppendVarint(dst, v)
}

func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// ErrForeign says that a record of the receipts topic is no receipt of this version.
var ErrForeign = errors.New("not a receipt of this version of feedsink")

// Open reads a record of the receipts topic.
func Open(key, value []byte) (r Receipt, err error) {
	if len(value) < len(header) || string(value[:len(header)]) != string(header) {
		return r, ErrForeign
	}
	in := reader{rest: value[len(header):]}
	r.Topic = in.text()
	r.Partition, r.Offset = int32(in.number()), in.number()
	r.Part, r.Parts = int(in.number()), int(in.number())
	r.Lane = schemas.Immediate + schemas.Lane(in.symbol(len(schemas.Lanes)))
	r.Mapping = in.text()
	r.Op = ops[in.symbol(len(ops))]
	r.Outcome = Outcome(in.symbol(len(outcomes)))
	r.Status, r.Execution = int(in.number()), in.text()
	r.Row = Row(in.symbol(int(InError) + 1))
	for _, at := range [...]*time.Time{&r.Written, &r.Assigned, &r.Started, &r.Ended} {
		if ms := in.number(); ms != 0 {
			*at = time.UnixMilli(ms)
		}
	}
	r.Key.ID = in.text()
	copy(r.Key.Hash[:], key)
	if in.err == nil && len(in.rest) > 0 {
		in.err = errors.New("more follows")
	}
	if in.err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", ErrForeign, in.err)
	}
	return r, nil
}

// reader reads Avro's binary encoding; after an error it gives zeros.
type reader struct {
	rest []byte
	err  error
}

func (in *reader) number() int64 {
	n, size := binary.Varint(in.rest)
	if size <= 0 {
		in.rest, in.err = nil, io.ErrUnexpectedEOF
		return 0
	}
	in.rest = in.rest[size:]
	return n
}

func (in *reader) text() string {
	n := in.number()
	if n < 0 || n > int64(len(in.rest)) {
		in.rest, in.err = nil, io.ErrUnexpectedEOF
		return ""
	}
	s := string(in.rest[:n])
	in.rest = in.rest[n:]
	return s
}

func (in *reader) symbol(of int) int {
	n := in.number()
	if n < 0 || n >= int64(of) {
		in.rest, in.err = nil, errors.New("an unknown symbol")
		return 0
	}
	return int(n)
}
