package batcher

import (
	"context"
	"errors"

	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/schemas"
)

// runFiles is one life of the batch lane's process.
func (l *lanes) runFiles(ctx context.Context, v *routesVersion) {
	m := l.mapping()
	m.DualLane, m.Fingerprint = v.immediate, v.fingerprint
	if l.flips.noDeletes {
		delete(m.Loads, schemas.Delete)
	}
	l.mu.Lock()
	seed := l.rnd.Uint64()
	l.mu.Unlock()
	l.own(ctx, &lanesOwner{lanes: l, version: v}, []files.Mapping{m}, seed)
}

// reroute is how the assignment begins, the lock held. changed: nobody can tell
// what the file of the import holds that was on its way.
func (o *lanesOwner) reroute() (c lanesCommit, changed bool) {
	c = o.batch
	var r ack.Resumption
	o.routes, r = o.resume(filed, o.version)
	c.offset, c.done = r.At, r.Done
	if c.entry != nil {
		entry := *c.entry
		if r.Rerouted {
			entry.Fingerprint = 0
		}
		c.entry, changed = &entry, entry.Fingerprint != o.version.fingerprint
	}
	return c, changed
}

// commitRoutes notes the routes with what else was committed, the lock held.
func (o *lanesOwner) commitRoutes() {
	if o.batch.offset >= o.routes.own.Resend {
		o.routes.own.Resend = 0
	}
	o.batch.committed, o.batch.routes = true, o.routes.own
	o.routes.onRecord = true
}

// follow looks at the other lane, the lock held.
func (o *lanesOwner) follow() {
	o.look()
	r := o.routes
	switch {
	case r.own.Outdated(&r.lane, &r.view):
		o.say("batch reads again: immediate has changed its routes")
		o.commit()
		o.again = true
	default:
		r.own.Notice(&r.lane, &r.view)
		if r.own.Hold && o.letGo(r, filed) {
			if r.lane.GoesBack(o.p.tracker.Watermark(), &r.own, &r.view) {
				o.say("batch reads again: immediate had gone back")
				o.commit()
				o.again = true
				return
			}
			r.lane.GoOn(&r.own, &r.view)
			o.say("batch goes on")
		}
	}
}

// takeRouted takes a record as the batch lane's pipeline does.
func (o *lanesOwner) takeRouted(w lanesWrite, at int64, done, covered bool) {
	o.mu.Lock()
	if o.routes.own.Hold || o.again {
		o.mu.Unlock()
		return
	}
	if o.flips.skipped(at) {
		o.mu.Unlock()
		o.passed(at + 1)
		return
	}
	var taken, wait bool
	theirs := o.flips.laneOf(o.version, &w.Write, at) == schemas.Immediate
	if theirs && !done {
		taken, wait = o.routes.takes(o.flips, filed, &w.Write, at)
	}
	o.p.waiting = wait && o.routes.seen
	resends := at < o.routes.own.Resend
	o.mu.Unlock()
	if wait {
		return
	}
	const mapping = "customers"
	var err error
	switch {
	case !o.routes.lane.Shared:
	case theirs:
		err = o.batcher.Other(mapping, w.Write, o.p, at, taken)
	case done:
		o.batcher.Landed(mapping, w.Write, o.p, at)
	}
	fileable := o.flips.fileable(&w.Write)
	switch {
	case err != nil, done, theirs && !taken:
	case covered && (!taken || fileable):
		o.batcher.Covered(mapping, w.Write, o.p, at)
	case taken && (resends || !fileable):
		err = o.batcher.Take(mapping, w.Write, o.p, at, fileable)
	case o.lanes.auto && at < o.p.end:
		err = o.batcher.Repeat(mapping, w.Write, o.p, at)
	case o.lanes.auto && !taken:
		err = o.offer(mapping, w, at)
	default:
		err = o.batcher.Append(mapping, w.Write, o.p, at)
	}
	if errors.Is(err, ErrBusy) {
		return
	}
	if err != nil {
		o.t.Error(err)
	}
	if taken {
		o.mu.Lock()
		o.say("batch takes %d", at)
		o.mu.Unlock()
	}
	o.passed(at + 1)
}
