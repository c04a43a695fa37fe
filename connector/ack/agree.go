package ack

import "slices"

// Two lanes read a topic, and each leaves to the other what its routes give to it.
// Routes change, and the lanes do not take the new ones at the same time. The rules
// here keep a record from being left by both:
//
//   - A lane leaves a record only to a lane whose ledger says that it applies the
//     same routes to it. It looks at that ledger after its own routes are on record.
//   - Routes that are new count from beyond everything that was confirmed under
//     others. Below, confirmed does not say by whom: a record that the other lane
//     has confirmed there is taken, whatever the routes say.
//   - The batch lane reads again, from what the immediate lane had confirmed, when
//     its routes change or those of the immediate lane do. Its files then come after
//     every call that was made under other routes.
//   - Where a mapping uses one lane only, and records may have been left to the other,
//     the remaining lane reads them again once the other has let go of the partition.

// LaneRoutes is what a lane's configuration says of a topic.
type LaneRoutes struct {
	Fingerprints []uint64 // of the routes of each mapping that reads the topic
	Alone        []uint64 // of these, the mappings that do not use the other lane
	Batch        bool     // the lane is the batch lane
	Shared       bool     // the other lane reads the topic, too
}

// View is the other lane's ledger of a partition, as it was seen.
type View struct {
	Committed bool // the other group has committed an offset
	Offset    int64
	Done      Ranges
	Routes    Routes
}

// Confirmed reports whether the other lane has confirmed the record.
func (v *View) Confirmed(offset int64) bool { return offset < v.Offset || v.Done.Contains(offset) }

// Agrees reports whether the other lane applies these routes.
func (l *LaneRoutes) Agrees(v *View) bool { return v.Committed && l.applied(&v.Routes) }

// applied reports whether r says that these routes are applied, and no others.
func (l *LaneRoutes) applied(r *Routes) bool {
	if !r.Known() || len(r.Epochs) != len(l.Fingerprints) {
		return false
	}
	for _, f := range l.Fingerprints {
		if _, ok := r.From(f); !ok {
			return false
		}
	}
	return true
}

// Decision is what a lane does with a write that its routes give to the other lane.
type Decision uint8

// The decisions.
const (
	Wait  Decision = iota // the other lane does not apply the same routes yet
	Leave                 // it is the other lane's
	Take                  // the other lane may have left it to this one under other routes
)

// Decide decides about the record at offset, of which a mapping whose routes have
// the fingerprint makes a write for the other lane. v was seen after r was committed.
func (r *Routes) Decide(v *View, fingerprint uint64, offset int64) Decision {
	if offset < r.Resend {
		return Take
	}
	from, ok := v.Routes.From(fingerprint)
	switch {
	case !v.Committed || !ok:
		return Wait
	case offset >= from || !v.Confirmed(offset):
		return Leave
	}
	return Take
}

// Outdated reports that the other lane has changed its routes and applies this
// lane's now: the batch lane then resumes.
func (r *Routes) Outdated(l *LaneRoutes, v *View) bool {
	if !l.Batch || !l.Shared || !l.Agrees(v) || r.Peer.Changed == v.Routes.Changed {
		return false
	}
	return r.Peer.Changed != 0 || !v.Routes.First || r.behind(v)
}

// behind reports whether the immediate lane has begun below what this lane had
// confirmed before it knew of it.
func (r *Routes) behind(v *View) bool {
	return slices.ContainsFunc(r.Epochs, func(e Epoch) bool { return v.Routes.Peer.Watermark < e.From })
}

// Notice keeps what was seen of the other lane while both apply the same routes.
func (r *Routes) Notice(l *LaneRoutes, v *View) {
	if !l.Batch && v.Committed && v.Routes.Peer.Changed >= r.Peer.Changed {
		r.Peer.Changed = 0 // the batch lane has read again what is called again
	}
	if l.Batch && l.Shared && l.Agrees(v) && !r.Outdated(l, v) {
		r.Peer = Peer{v.Routes.Changed, v.Offset}
	}
}

// Resumption is how an assignment of a partition begins.
type Resumption struct {
	At       int64  // the watermark
	Done     Ranges // confirmed beyond it
	Routes   Routes
	Rerouted bool // what imports hold was routed in another way: nothing says which records
}

// Begin is how a lane begins with a partition of which its group has committed
// nothing: at the given offset, or where the other lane stands if that never left
// it a record. now is in Unix milliseconds.
func (l *LaneRoutes) Begin(at int64, v *View, now int64) Resumption {
	out := Resumption{At: at, Routes: Routes{Changed: now, First: true}}
	out.Routes.Hold = !l.Shared && v.Committed && v.Routes.Shared
	if v.Committed && v.Routes.Known() && !v.Routes.Passed {
		out.At, out.Done = v.Offset, slices.Clone(v.Done)
	}
	l.count(&out, beyond(out.At, out.Done), v)
	if !l.Batch {
		out.Routes.Peer.Watermark = out.At
	}
	return out
}

// Resume is how a lane goes on from a ledger that its group committed at an offset.
func (l *LaneRoutes) Resume(at int64, own *Ledger, v *View, now int64) Resumption {
	out := Resumption{At: at, Done: own.Done, Routes: own.Routes}
	changed := !l.applied(&own.Routes)
	if !changed && !own.Routes.Outdated(l, v) {
		return out
	}
	out.Routes.Changed, out.Routes.First = now, false
	if !l.Batch && !l.returns(own) {
		if own.Routes.Changed == 0 { // another tool has set the offset: calls are made again from there
			out.Routes.Peer = Peer{now, at}
		}
		l.count(&out, beyond(at, own.Done), v)
		return out
	}
	out.Routes.Epochs = nil
	out.At, out.Done, out.Rerouted = min(at, l.since(at, own, v)), nil, l.Batch
	out.Routes.Hold = l.returns(own)
	l.count(&out, out.At, v)
	return out
}

// returns reports whether the lane has to wait until the other lane, which a mapping
// does not use any more, has let go, and then to take what it may have left to that
// one, or what that one has written late. The batch lane reads that again anyway; it
// has to wait for an immediate lane that is not there to agree.
func (l *LaneRoutes) returns(own *Ledger) bool {
	if r := &own.Routes; !r.Known() || !r.Shared && !r.Passed && !r.Hold || l.Batch && l.Shared {
		return false
	}
	return slices.ContainsFunc(l.Alone, func(f uint64) bool {
		_, ok := own.Routes.From(f)
		return !ok
	})
}

// since is the offset from which records are read again.
func (l *LaneRoutes) since(at int64, own *Ledger, v *View) int64 {
	since := l.unseen(at, own, v)
	if l.Batch && l.Shared && v.Committed && v.Routes.Peer.Changed > own.Routes.Peer.Changed {
		since = min(since, v.Routes.Peer.Watermark) // from there its calls are made again, over newer rows
	}
	return since
}

// unseen is the offset from which this lane may not know what the other has done.
func (l *LaneRoutes) unseen(at int64, own *Ledger, v *View) int64 {
	switch {
	case !l.Batch && v.Committed:
		return v.Offset
	case !l.Batch:
		return 0 // its offsets are gone: what it had confirmed cannot be told
	case own.Routes.Known() && own.Routes.Shared && own.Routes.Peer.Changed == 0 && v.Committed:
		return min(own.Routes.Peer.Watermark, v.Routes.Peer.Watermark)
	case own.Routes.Known() && own.Routes.Shared && v.Committed:
		return min(own.Routes.Peer.Watermark, v.Offset) // it may have gone back
	case own.Routes.Known() && own.Routes.Shared:
		return own.Routes.Peer.Watermark
	case own.Routes.Known() && l.Shared && v.Committed:
		// Its calls come after the files of the time when the lane was alone.
		return max(own.Routes.Peer.Watermark, v.Routes.Peer.Watermark)
	case !own.Routes.Known() && own.Routes.Changed != 0 && l.Shared && v.Committed:
		return v.Offset
	}
	return at // the other lane has not begun, or another tool has set the offset: not below
}

// count has the routes count from an offset on; those that counted before go on.
func (l *LaneRoutes) count(out *Resumption, from int64, v *View) {
	before := out.Routes
	out.Routes.Epochs = make([]Epoch, 0, len(l.Fingerprints))
	for _, f := range l.Fingerprints {
		e := Epoch{f, from}
		if since, ok := before.From(f); ok {
			e.From = since
		}
		out.Routes.Epochs = append(out.Routes.Epochs, e)
	}
	out.Routes.Shared = l.Shared
	if !l.Batch {
		return
	}
	out.Routes.Peer = Peer{}
	switch {
	case !l.Shared && v.Committed:
		out.Routes.Peer.Watermark = v.Offset
	case !l.Shared:
	case v.Committed:
		out.Routes.Peer = Peer{v.Routes.Changed, v.Offset}
	default:
		out.Routes.Peer.Watermark = out.At
	}
}

// beyond is the first offset above everything confirmed.
func beyond(watermark int64, done Ranges) int64 {
	if n := len(done); n > 0 {
		return max(watermark, done[n-1].To)
	}
	return watermark
}
