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
//     It looks for members of the other lane once its own ledger says that it is alone.
//   - A lane that begins with a partition while the other's ledger says that it is alone
//     waits: until the other one shares the partition, or where this lane is to be alone,
//     too, until no member of the other one owns it. So one of the two sees the other.
//   - A record that the routes skip is left to no lane: each confirms it at once,
//     without asking. Where new routes do not skip it any more, a lane that comes to it
//     takes it, as any record that the other one has confirmed under others.

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
	Refused   Ranges // of what is confirmed; it may have more
}

// Confirmed reports whether the other lane has confirmed the record.
func (v *View) Confirmed(offset int64) bool { return offset < v.Offset || v.Done.Contains(offset) }

// Alone reports whether the other lane takes everything, whatever the routes of this
// one say.
func (v *View) Alone() bool { return v.Committed && v.Routes.Known() && !v.Routes.Shared }

// agrees reports whether the other lane applies these routes.
func (l *LaneRoutes) agrees(v *View) bool { return v.Committed && l.applied(&v.Routes) }

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
	from, ok := v.Routes.From(fingerprint)
	switch {
	case !v.Committed || !ok:
		return Wait
	case offset < r.Resend:
		return Take
	case offset >= from || !v.Confirmed(offset):
		return Leave
	}
	return Take
}

// Outdated reports that the other lane has changed its routes and applies this
// lane's now: the batch lane then resumes.
func (r *Routes) Outdated(l *LaneRoutes, v *View) bool {
	if !l.Batch || !l.Shared || !l.agrees(v) || r.Peer.Changed == v.Routes.Changed {
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
	r.Reset = r.Reset && v.Routes.Peer.Changed != r.Changed
	if l.Batch && l.Shared && l.agrees(v) && !r.Outdated(l, v) {
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
	out.Routes.Hold = !l.Shared && l.remains() || v.Alone()
	if v.Committed && v.Routes.Known() && !v.Routes.Passed {
		out.At, out.Done = v.Offset, slices.Clone(v.Done)
	}
	l.count(&out, beyond(out.At, out.Done), v)
	if !l.Batch {
		out.Routes.Peer = Peer{v.Routes.Changed, out.At}
	}
	return out
}

// Resume is how a lane goes on from a ledger that its group committed at an offset.
func (l *LaneRoutes) Resume(at int64, own *Ledger, v *View, now int64) Resumption {
	out := Resumption{At: at, Done: own.Done, Routes: own.Routes}
	returns := l.returns(&own.Routes, v)
	out.Routes.Hold = returns || v.Alone() || own.Routes.Hold && l.remains()
	if l.applied(&own.Routes) && !returns && !own.Routes.Outdated(l, v) {
		return out
	}
	out.Routes.Changed, out.Routes.First = now, false
	if !l.Batch && !returns {
		l.count(&out, beyond(at, own.Done), v)
	} else {
		out.Routes.Epochs, out.Routes.Passed = nil, own.Routes.Passed && !returns
		out.At, out.Done, out.Rerouted = min(at, l.since(at, &own.Routes, v)), nil, l.Batch
		l.count(&out, out.At, v)
	}
	switch {
	case l.Batch && l.Shared && own.Routes.Known() && !own.Routes.Shared:
		// The files of the time when it was alone came after these calls.
		out.Routes.Resend = max(own.Routes.Resend, beyond(v.Offset, v.Done))
	case !l.Batch && own.Routes.Known() && v.Routes.Peer.Changed != own.Routes.Changed:
		out.Routes.Peer.Watermark = min(own.Routes.Peer.Watermark, out.At)
	case !l.Batch:
		out.Routes.Peer.Watermark, out.Routes.Reset = out.At, own.Routes.Changed == 0
	}
	if returns {
		out.Routes.Peer.Changed = v.Routes.Changed
	}
	return out
}

// remains reports whether a mapping is left with this lane. The batch lane of a topic
// that is shared reads again anyway what the other one has had; it has to wait for
// an immediate lane that is not there to agree.
func (l *LaneRoutes) remains() bool { return len(l.Alone) > 0 && (!l.Batch || !l.Shared) }

// returns reports whether the lane has to wait until the other lane, which a mapping
// does not use any more, has let go, and then to take what it may have left to that
// one, or what that one has written late.
func (l *LaneRoutes) returns(own *Routes, v *View) bool {
	if !own.Known() || !l.remains() {
		return false
	}
	if own.Peer.Changed != v.Routes.Changed && (own.Hold || v.Alone()) {
		return true // it is not known from where on the other lane has written since
	}
	return (own.Shared || own.Passed) && slices.ContainsFunc(l.Alone, func(f uint64) bool {
		_, ok := own.From(f)
		return !ok
	})
}

// Awaits reports whether a lane that waits for the other one has to go on with that.
// owned says that a member of the other lane owns the partition.
func (l *LaneRoutes) Awaits(v *View, owned bool) bool {
	if l.Shared && v.Alone() {
		return true
	}
	return l.remains() && owned && !l.agrees(v)
}

// GoesBack reports whether a lane that has waited has to begin again at an earlier
// offset: the other one has gone back before it let go.
func (l *LaneRoutes) GoesBack(at int64, own *Routes, v *View) bool {
	return l.returns(own, v) && l.since(at, own, v) < at
}

// GoOn ends the time of waiting.
func (l *LaneRoutes) GoOn(own *Routes, v *View) {
	own.Hold = false
	switch {
	case !l.remains():
	case l.Batch:
		own.Peer = Peer{v.Routes.Changed, v.Offset}
	default:
		own.Peer.Changed = v.Routes.Changed
	}
}

// since is the offset from which records are read again.
func (l *LaneRoutes) since(at int64, own *Routes, v *View) int64 {
	switch {
	case !l.Batch && v.Committed && v.Routes.Known() && v.Routes.Shared && own.Known():
		return min(v.Offset, called(&v.Routes.Peer, own)) // the last files may be older than those calls
	case !l.Batch && v.Committed:
		return v.Offset
	case !l.Batch:
		return 0 // its offsets are gone: what it had confirmed cannot be told
	case !own.Known() && own.Changed != 0 && l.Shared && v.Committed:
		return v.Offset
	case !own.Known() && l.Shared && v.Routes.Reset:
		return v.Routes.Peer.Watermark // another tool has set both: calls from there on are made again, and rows come behind them
	case !own.Known(), !v.Committed && !own.Shared:
		return at // the other lane has not begun, or another tool has set the offset: not below
	case !v.Committed:
		return own.Peer.Watermark
	case own.Peer.Changed == 0 && !own.Shared && v.Routes.Known():
		return v.Routes.Peer.Watermark // the other lane began meanwhile
	case own.Peer.Changed != v.Routes.Changed && !v.Routes.Known():
		return min(own.Peer.Watermark, v.Offset)
	}
	return called(&own.Peer, &v.Routes)
}

// called is the offset from which the immediate lane may have made calls that the
// batch lane does not reckon with.
func called(known *Peer, immediate *Routes) int64 {
	if known.Changed == immediate.Changed {
		return known.Watermark
	}
	return min(known.Watermark, immediate.Peer.Watermark)
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
	case v.Committed:
		out.Routes.Peer = Peer{v.Routes.Changed, v.Offset}
	case l.Shared:
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
