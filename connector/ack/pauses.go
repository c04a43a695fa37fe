package ack

import "encoding/binary"

// Pause is a lane of a mapping that a person has paused, or resumed since. It is kept
// with the partitions that the mapping reads, in both lanes' groups: any member can
// write it there, and all others read it. Of two for one lane of a mapping the later
// one counts.
type Pause struct {
	Mapping uint64 // of its name
	Batch   bool   // the batch lane; else the immediate one
	Resumed bool   // it has ended
	At      int64  // when that was said, in milliseconds of Unix
	Until   int64  // when it ends by itself, likewise; 0: never
	Reason  string // in the person's words; may be empty
}

// flags are what of it the ledger has in one byte, from the lowest bit on.
func (p *Pause) flags() []*bool { return []*bool{&p.Batch, &p.Resumed} }

// appendPauses writes nothing where there is none, and nothing follows: such a ledger is what
// it was before there were any. The reasons may be left out.
func (l *Ledger) appendPauses(b []byte, reasons bool) []byte {
	if len(l.Pauses)+len(l.Refused) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(l.Pauses)))
	for _, p := range l.Pauses {
		b = binary.BigEndian.AppendUint64(appendFlags(b, p.flags()...), p.Mapping)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.At)), uint64(p.Until))
		if !reasons {
			p.Reason = ""
		}
		b = appendString(b, p.Reason)
	}
	return b
}

// pauses reads what appendPauses wrote.
func (r *reader) pauses() (all []Pause) {
	if r.err != nil || len(r.rest) == 0 {
		return nil
	}
	for range r.count() {
		var p Pause
		r.flags(p.flags()...)
		p.Mapping, p.At, p.Until, p.Reason = r.uint64(), r.length(), r.length(), r.string()
		all = append(all, p)
	}
	return all
}
