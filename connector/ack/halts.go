package ack

import "encoding/binary"

// Halt is a mapping that takes no more records until a person releases it: nearly
// all of its records were refused alike. It is kept with the partitions that the
// mapping reads, so that neither a restart nor a move lets it go on.
type Halt struct {
	Mapping uint64 // of its name
	Stage   string // where the records were refused
	Code    string // why, as a dead letter has it
	Status  int    // the service's answer; 0: none
}

// appendHalts writes nothing where there is none, and nothing follows: such a ledger is what
// it was before there were any.
func (l *Ledger) appendHalts(b []byte) []byte {
	if len(l.Halts)+len(l.Pauses)+len(l.Refused) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(l.Halts)))
	for _, h := range l.Halts {
		b = binary.BigEndian.AppendUint64(b, h.Mapping)
		b = appendString(appendString(b, h.Stage), h.Code)
		b = binary.AppendUvarint(b, uint64(h.Status))
	}
	return b
}

// halts reads what appendHalts wrote.
func (r *reader) halts() (all []Halt) {
	if r.err != nil || len(r.rest) == 0 {
		return nil
	}
	for range r.count() {
		all = append(all, Halt{r.uint64(), r.string(), r.string(), int(r.length())})
	}
	return all
}
