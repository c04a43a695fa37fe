package ack

import "encoding/binary"

// Routes is what a lane's ledger says of the routes it applies to a partition.
// Its zero value says nothing: the group has committed nothing of ours.
type Routes struct {
	// Changed is when the lane began to apply its present routes, in Unix
	// milliseconds. It tells one change from the next.
	Changed int64
	// First says that the group had committed nothing before these routes.
	First bool
	// Passed says that records may have been left to the other lane.
	Passed bool
	// Hold says that records wait until the other lane has let go of the partition.
	Hold bool
	// Halted says that the lane has halted the partition, or that a person has paused a
	// mapping that reads it: what it has not confirmed stays so until a person acts.
	Halted bool
	// Reset says that another tool had set the offset at which these routes began, and that
	// the batch lane has not taken notice of them since: the calls from there on may be
	// made again over rows of files. It is the immediate lane's.
	Reset bool
	// Shared says that the other lane read the topic, too, under these routes.
	Shared bool
	Epochs []Epoch // one for each mapping that reads the topic
	// Peer is, in the batch lane's ledger of a shared topic, what it knew of the
	// immediate lane when both last applied the same routes, or when it began with
	// these, alone or not. In the immediate lane's ledger its watermark is from where
	// on that lane has called since the batch lane took notice of its routes, and
	// Changed is of the routes that the batch lane had when it last let go.
	Peer Peer
	// Resend is, in the batch lane's ledger, the offset below which writes of the
	// immediate lane may have been overwritten, by a file that was sent under other
	// routes or before they were read: the batch lane writes them again, once both
	// lanes apply the same routes. 0: none.
	Resend int64
}

// Epoch says from which offset of the partition on the lane applies the routes of
// one mapping.
type Epoch struct {
	Fingerprint uint64 // of the mapping's routes
	From        int64
}

// Peer is what a lane has seen of the other lane's ledger.
type Peer struct {
	Changed   int64 // of the other lane's Routes; 0: it had none
	Watermark int64 // below it the other lane had confirmed everything
}

// unknownRoutes is what a ledger says that was written before routes were in it.
var unknownRoutes = Routes{Changed: 1, Passed: true}

// Known reports whether the ledger says which routes its lane applies.
func (r *Routes) Known() bool { return r.Changed > unknownRoutes.Changed }

// From is the offset from which the routes with the fingerprint count.
func (r *Routes) From(fingerprint uint64) (from int64, ok bool) {
	for _, e := range r.Epochs {
		if e.Fingerprint == fingerprint {
			return e.From, true
		}
	}
	return 0, false
}

// flags are what of it the ledger has in one byte, from the lowest bit on.
func (r *Routes) flags() []*bool {
	return []*bool{&r.First, &r.Passed, &r.Hold, &r.Shared, &r.Halted, &r.Reset}
}

func (r *Routes) append(b []byte, watermark int64) []byte {
	b = appendFlags(binary.AppendUvarint(b, uint64(r.Changed)), r.flags()...)
	b = binary.AppendUvarint(b, uint64(len(r.Epochs)))
	for _, e := range r.Epochs {
		b = binary.BigEndian.AppendUint64(b, e.Fingerprint)
		b = binary.AppendVarint(b, e.From-watermark)
	}
	b = binary.AppendUvarint(b, uint64(r.Peer.Changed))
	b = binary.AppendVarint(b, r.Peer.Watermark-watermark)
	return binary.AppendUvarint(b, uint64(r.Resend))
}

func (r *reader) routes(watermark int64) (out Routes) {
	out.Changed = r.length()
	r.flags(out.flags()...)
	for range r.count() {
		out.Epochs = append(out.Epochs, Epoch{r.uint64(), watermark + r.varint()})
	}
	out.Peer.Changed = r.length()
	out.Peer.Watermark = watermark + r.varint()
	out.Resend = r.length()
	return out
}
