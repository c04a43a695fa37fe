package batcher

import (
	"errors"
	"sync/atomic"
	"time"
)

type partition struct{ dead atomic.Bool }

type claim struct {
	p        *partition
	from, to int64
}

func (p *partition) Read() int64 { return 0 }

func (p *partition) Claim(offset int64) Claim { return &claim{p, offset, offset} }
func (c *claim) Extend(offset int64)          { c.to = offset }
func (c *claim) Live() bool                   { return !c.p.dead.Load() }

// refusal is a classified failure of the service.
var _ Failure = (*refusal)(nil)

type refusal struct {
	transient, unknown, noSlot bool
	after                      time.Duration
	words                      string
}

func (r *refusal) Error() string             { return "service said no" }
func (r *refusal) Transient() bool           { return r.transient }
func (r *refusal) Unknown() bool             { return r.unknown }
func (r *refusal) NoSlot() bool              { return r.noSlot }
func (r *refusal) Reason() string            { return r.words }
func (r *refusal) Cause() string             { return "" }
func (r *refusal) RetryAfter() time.Duration { return r.after }

var errDisconnected = errors.New("connection reset")
