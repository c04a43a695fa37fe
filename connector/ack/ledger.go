package ack

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// MetadataLimit is how many characters a broker accepts as the metadata of an
// offset commit unless its offset.metadata.max.bytes says otherwise.
const MetadataLimit = 4096

// version opens every ledger we write. The rest is base64url, because the
// broker counts and stores the metadata as characters, not bytes. Ledgers of
// version 2 are read too: they end before the routes.
const (
	version  = "feedsink3."
	version2 = "feedsink2."
)

// Errors of Decode. Both mean: start over from the committed offset.
var (
	ErrForeign   = errors.New("metadata was not written by feedsink, or by another version of it")
	ErrDamaged   = errors.New("ledger is damaged")
	errTruncated = fmt.Errorf("%w: it ends too early", ErrDamaged)
)

// ErrTooLarge is returned by Encode when what must not be dropped does not fit.
var ErrTooLarge = errors.New("ledger does not fit into the offset commit's metadata")

// TopicID tells a topic from another one of the same name, created later.
type TopicID [16]byte

// Ledger is what a partition's offset commit carries beside the offset.
type Ledger struct {
	Topic   TopicID
	Done    Ranges   // confirmed offsets at or beyond the committed one
	Imports []Import // unfinished imports that cover records of this partition
	Slots   []Slots  // on a table's home partition: today's imports
	Routes  Routes   // which routes the lane applies, and from where on
	Halts   []Halt   // of mappings that read this partition
	Pauses  []Pause  // likewise
	// Refused are offsets of records that became dead letters, at or beyond the watermark of
	// this lane or, if there is one, the other: an older record may have been left out in their
	// favour. It may have more of them, never fewer.
	Refused Ranges
}

// Import is an import between its intention and its confirmation. The files of
// one generation, one for each mode, are imported one after the other and
// share one entry: that of the file whose turn it is.
type Import struct {
	State       State
	Table       string
	Mode        string // as in the ETL's definition
	File        string
	Execution   string // "" until the trigger was answered
	UpTo        int64  // it covers this partition's records of that table and lane below
	Since       int64  // what the other lane had confirmed of this partition, as an offset, when the file was sent; at most the committed offset
	Fingerprint uint64 // of the mapping that routed them
	Part        int    // 1-based place of the file in its generation: those before it are loaded
	Parts       int    // files of the generation
	Attempt     int    // 1-based: how often the file may have been sent
}

// State is how far an import is on record.
type State uint8

// The states, in the order of an import's life, and those beside it.
const (
	Intended    State = iota // its file may have been sent: it is not known
	Running                  // its execution is known
	Reconciling              // it ended; keys that the other lane wrote meanwhile are being reconciled
	Rebuild                  // its file was not sent, or failed, and is gone: its records are read again
	Refused                  // its file was refused for good, or FAILED and would again; built again, it waits for a person
	InError                  // it ended; rows of this partition's records are in error, and there is no dead-letter topic
	PartInError              // likewise, while a later file of its generation is on its way
	SetApart                 // it ended; this partition held up reconciling: its records are read again, though their rows may have landed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode writes the ledger for a commit of the given offset, in at most limit
// ASCII characters. If it is too long, the reasons of pauses are left out, then the
// highest ranges of Done, which are counted in dropped: after a crash those records are
// sent again, which is a repetition but no loss. Last, Refused becomes one range. ErrTooLarge
// means that not even the rest fits.
func (l *Ledger) Encode(watermark int64, limit int) (metadata string, dropped int, err error) {
	if err := l.tooManySlots(); err != nil {
		return "", len(l.Done), err
	}
	done, reasons := l.Done, true
	for {
		b := l.body(watermark, done, reasons)
		size := characters(len(b))
		if size <= limit {
			b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
			return version + base64.RawURLEncoding.EncodeToString(b), len(l.Done) - len(done), nil
		}
		if reasons && len(l.Pauses) > 0 {
			reasons = false
			continue
		}
		if len(done) == 0 && len(l.Refused) > 1 {
			l.Refused = l.Refused.atMost(1)
			continue
		}
		if len(done) == 0 {
			return "", len(l.Done), fmt.Errorf("%w: %d of %d characters, imports: %d", ErrTooLarge, size, limit, len(l.Imports))
		}
		done = done[:len(done)-max(1, len(done)*(size-limit)/size)]
	}
}

// body is the ledger in bytes, with these of the confirmed ranges and with the reasons of
// pauses or without.
func (l *Ledger) body(watermark int64, done Ranges, reasons bool) []byte {
	b := done.append(append([]byte(nil), l.Topic[:]...), watermark)
	b = l.appendImports(b, watermark)
	b = l.appendSlots(b)
	b = l.Routes.append(b, watermark)
	b = l.appendPauses(l.appendHalts(b), reasons)
	if len(l.Refused) > 0 { // the last section is there only if it says anything
		b = l.Refused.append(b, 0)
	}
	return b
}

func (l *Ledger) appendImports(b []byte, watermark int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(l.Imports)))
	for _, im := range l.Imports {
		b = append(b, byte(im.State))
		for _, s := range []string{im.Table, im.Mode, im.File, im.Execution} {
			b = appendString(b, s)
		}
		b = binary.AppendVarint(b, im.UpTo-watermark)
		b = binary.AppendUvarint(b, uint64(watermark-min(im.Since, watermark)))
		b = binary.BigEndian.AppendUint64(b, im.Fingerprint)
		for _, n := range []int{im.Part, im.Parts, im.Attempt} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

func (l *Ledger) appendSlots(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(l.Slots)))
	for _, s := range l.Slots {
		b = appendString(b, s.Table)
		var runs []byte
		at, n := int64(0), 0
		for i := 0; i < len(s.Used); n++ {
			same := i + 1
			for same < len(s.Used) && s.Used[same] == s.Used[i] {
				same++
			}
			runs = binary.AppendVarint(runs, s.Used[i]-at)
			runs = binary.AppendUvarint(runs, uint64(same-i))
			at, i = s.Used[i], same
		}
		b = append(binary.AppendUvarint(b, uint64(n)), runs...)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendFlags(b []byte, flags ...*bool) []byte {
	bits := byte(0)
	for i, flag := range flags {
		if *flag {
			bits |= 1 << i
		}
	}
	return append(b, bits)
}

// Decode reads the metadata of a commit of the given offset. Empty metadata is
// an empty ledger. Otherwise err is ErrForeign or ErrDamaged, and the ledger
// is empty: what it would have spared is then done again.
func Decode(metadata string, watermark int64) (Ledger, error) {
	if metadata == "" {
		return Ledger{}, nil
	}
	rest, ours := strings.CutPrefix(metadata, version)
	older := false
	if !ours {
		if rest, older = strings.CutPrefix(metadata, version2); !older {
			return Ledger{}, ErrForeign
		}
	}
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return Ledger{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if len(b) < 4+len(TopicID{}) {
		return Ledger{}, errTruncated
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return Ledger{}, fmt.Errorf("%w: the checksum differs", ErrDamaged)
	}
	r := reader{rest: body}
	l := r.ledger(watermark)
	if older {
		l.Routes = unknownRoutes
	} else {
		l.Routes, l.Halts, l.Pauses, l.Refused = r.routes(watermark), r.halts(), r.pauses(), r.refused()
	}
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%w: bytes behind its end: %d", ErrDamaged, len(r.rest))
	}
	if r.err != nil {
		return Ledger{}, r.err
	}
	return l, nil
}

// reader takes a ledger apart; after its first error it only returns zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) ledger(watermark int64) (l Ledger) {
	copy(l.Topic[:], r.bytes(len(l.Topic)))
	l.Done = r.ranges(watermark)
	for range r.count() {
		var im Import
		im.State = State(r.byte())
		im.Table, im.Mode, im.File, im.Execution = r.string(), r.string(), r.string(), r.string()
		im.UpTo = watermark + r.varint()
		im.Since = watermark - r.length()
		im.Fingerprint = r.uint64()
		im.Part, im.Parts, im.Attempt = int(r.length()), int(r.length()), int(r.length())
		l.Imports = append(l.Imports, im)
	}
	for range r.count() {
		s := Slots{Table: r.string()}
		at := int64(0)
		for range r.count() {
			at += r.varint()
			times := r.length()
			if times > maxSlots-int64(len(s.Used)) {
				r.fail()
				break
			}
			for range times {
				s.Used = append(s.Used, at)
			}
		}
		l.Slots = append(l.Slots, s)
	}
	return l
}

func (r *reader) fail() {
	r.err, r.rest = errTruncated, nil
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) flags(flags ...*bool) {
	bits := r.byte()
	for i, flag := range flags {
		*flag = bits&(1<<i) != 0
	}
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) string() string { return string(r.bytes(r.count())) }

// count reads a number of things of at least one byte each, which can
// therefore not be more than there are bytes left.
func (r *reader) count() int {
	n := r.length()
	if n > int64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) length() int64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<62 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return int64(v)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}
