package audit

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
)

// ledger is what the metadata of a commit says, as far as an audit asks: confirmed offsets
// beyond the committed one, imports under way, the day's slots, and from where on which
// routes count.
type ledger struct {
	topic   [16]byte
	done    []span
	imports []running
	slots   map[string][]int64 // by table: when, in seconds of Unix
	routes  routes
}

// span is offsets from one up to, not including, another.
type span struct{ from, to int64 }

// running is an import that is not confirmed.
type running struct {
	state                        byte
	table, file, execution, mode string
	upTo                         int64
}

// routes is which routes a lane applies.
type routes struct {
	changed int64 // when it began to, in milliseconds of Unix
	first   bool  // it had committed nothing before
	shared  bool  // the other lane reads the topic, too
	lowest  int64 // of the offsets from which on they count
	highest int64 // likewise; below, records may have ended under others
}

// known reports whether the ledger says which routes its lane applies. Those of version 2
// do not.
func (r *routes) known() bool { return r.changed > 1 }

// confirmed reports whether the lane has confirmed the record at offset.
func (l *ledger) confirmed(committed, offset int64) bool {
	if offset < committed {
		return true
	}
	i, found := slices.BinarySearchFunc(l.done, offset, func(s span, o int64) int {
		switch {
		case s.to <= o:
			return -1
		case s.from > o:
			return 1
		}
		return 0
	})
	return found && i < len(l.done)
}

// end is the offset after the last that is confirmed.
func (l *ledger) end(committed int64) int64 {
	if n := len(l.done); n > 0 {
		return l.done[n-1].to
	}
	return committed
}

var (
	errNoMetadata = errors.New("it is empty: another tool has set the offset")
	errForeign    = errors.New("it is not feedsink's, or of a newer version")
	errChecksum   = errors.New("its checksum differs")
	errShort      = errors.New("it ends too early, or says what cannot be")
)

// openLedger reads the metadata of a commit: the version's name, a dot, and in base64url
// without padding the topic's id (16 bytes), done, imports, slots, routes and more, and a
// CRC-32C of all that. Numbers are varints; lists and texts begin with their length;
// offsets are relative to the committed one.
func openLedger(metadata string, committed int64) (l ledger, err error) {
	version, text, _ := strings.Cut(metadata, ".")
	switch {
	case metadata == "":
		return l, errNoMetadata
	case version != "feedsink2" && version != "feedsink3":
		return l, errForeign
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return l, fmt.Errorf("base64: %w", err)
	}
	if len(b) < 20 {
		return l, errShort
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return l, errChecksum
	}
	in := input{rest: body}
	copy(l.topic[:], in.take(16))
	l.done = in.done(committed)
	l.imports = in.imports(committed)
	l.slots = in.slots()
	if version == "feedsink3" {
		l.routes = in.routes(committed) // halts and pauses follow
	}
	if in.bad {
		return ledger{}, errShort
	}
	return l, nil
}

// input takes bytes apart. After what cannot be it gives zeros.
type input struct {
	rest []byte
	bad  bool
}

func (in *input) fail() { in.bad, in.rest = true, nil }

func (in *input) take(n int64) []byte {
	if n < 0 || n > int64(len(in.rest)) {
		in.fail()
		return make([]byte, min(max(n, 0), 16))
	}
	b := in.rest[:n]
	in.rest = in.rest[n:]
	return b
}

func (in *input) uvarint() int64 {
	v, n := binary.Uvarint(in.rest)
	if n <= 0 || v > 1<<62 {
		in.fail()
		return 0
	}
	in.rest = in.rest[n:]
	return int64(v)
}

func (in *input) varint() int64 {
	v, n := binary.Varint(in.rest)
	if n <= 0 {
		in.fail()
		return 0
	}
	in.rest = in.rest[n:]
	return v
}

func (in *input) text() string { return string(in.take(in.uvarint())) }

// each reads the items of a list, each of which takes a byte at least.
func (in *input) each(item func()) {
	n := in.uvarint()
	if n > int64(len(in.rest)) {
		in.fail()
	}
	for i := int64(0); i < n && !in.bad; i++ {
		item()
	}
}

func (in *input) done(at int64) (done []span) {
	in.each(func() {
		from := at + in.uvarint()
		at = from + in.uvarint()
		if at <= from {
			in.fail()
			return
		}
		done = append(done, span{from, at})
	})
	return done
}

func (in *input) imports(committed int64) (all []running) {
	in.each(func() {
		r := running{state: in.take(1)[0]}
		r.table, r.mode, r.file, r.execution = in.text(), in.text(), in.text(), in.text()
		r.upTo = committed + in.varint()
		in.uvarint() // how far the other lane was
		in.take(8)   // the mapping's fingerprint
		for range 3 {
			in.uvarint() // part, parts, attempt
		}
		all = append(all, r)
	})
	return all
}

// mostSlots bounds what a few bytes can say.
const mostSlots = 1 << 20

func (in *input) slots() map[string][]int64 {
	all := map[string][]int64{}
	in.each(func() {
		table, at := in.text(), int64(0)
		var used []int64
		in.each(func() {
			at += in.varint()
			n := in.uvarint()
			if n > mostSlots-int64(len(used)) {
				in.fail()
				return
			}
			used = append(used, slices.Repeat([]int64{at}, int(n))...)
		})
		all[table] = append(all[table], used...)
	})
	return all
}

func (in *input) routes(committed int64) (r routes) {
	r.changed = in.uvarint()
	flags := in.take(1)[0]
	r.first, r.shared = flags&1 != 0, flags&8 != 0
	none := true
	in.each(func() {
		in.take(8) // the routes' fingerprint
		from := committed + in.varint()
		if none || from < r.lowest {
			r.lowest = from
		}
		r.highest, none = max(r.highest, from), false
	})
	in.uvarint()                             // when the other lane's had changed
	in.varint()                              // and how far it was
	r.highest = max(r.highest, in.uvarint()) // below, the batch lane writes the other's records, too
	return r
}
