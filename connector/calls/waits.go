package calls

import (
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Wait is why calls wait, and until when.
type Wait struct {
	Table  schemas.Table // zero: the service, whatever the table
	Until  time.Time     // then one call is tried; zero: that time has come, or each key is tried again in its own time
	Status int           // that the service answered; 0: the breaker is open
	Every  time.Duration // the lane's part of the rate is a call so often; 0: it is not that
	Again  *Again        // the table's calls go on, but for those of some keys; nil: it is not that
}

// Again is keys of a table that are tried again because they failed, and the one of them that
// fails the longest.
type Again struct {
	Keys    int
	Mapping string
	Since   time.Time
	Tries   int
	Err     error // of the last of them
}

// A key is told of as failing once it was tried so often, and for so long: most failures are gone before.
const (
	tellTries = 5
	tellAfter = 10 * time.Second
)

// tellEvery is how seldom calls are that are told of as waiting for the rate.
const tellEvery = time.Minute

// seldom is how often the lane's part of the rate lets a call start that waits for it at present, if that
// is to be told; 0: it is not.
func (l *Lane) seldom(now time.Time) time.Duration {
	if l.rate == nil {
		return 0
	}
	l.service.rates.Lock()
	defer l.service.rates.Unlock()
	every := time.Duration(float64(time.Second) / max(float64(l.rate.Limit()), 1e-9))
	if every <= tellEvery || !l.lends() || !now.Before(l.short) {
		return 0
	}
	return every
}

// Waits lists what holds calls back at present: what the service answered, or the rate.
func (l *Lane) Waits() (waits []Wait) {
	now, pending := time.Now(), l.pending.Load() > 0
	add := func(w Wait) {
		if !w.Until.After(now) {
			w.Until = time.Time{}
		}
		waits = append(waits, w)
	}
	if until, status := l.service.waits(); status != 0 && (pending || until.After(now)) {
		add(Wait{Until: until, Status: status})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if pending && len(waits) == 0 {
		if l.throttled.Status != 0 {
			add(l.throttled)
		} else if every := l.seldom(now); every > 0 {
			add(Wait{Every: every})
		}
	}
	for _, t := range l.tables {
		switch again := t.failing(now); {
		case t.held && t.refusals > 0:
			add(Wait{Table: t.id, Until: t.until, Status: t.status})
		case t.held:
			add(Wait{Table: t.id, Until: t.until})
		case again.Keys > 0:
			add(Wait{Table: t.id, Again: &again})
		}
	}
	return waits
}

// follow lists a call that is tried again because it failed, until it is answered. One that waits for
// what is on its way by other means was answered.
func (t *table) follow(c *call, v *verdict) {
	if v.outcome != Retried || v.answered {
		t.unlist(c)
		return
	}
	c.failure = v.err
	if c.again == nil {
		c.again = t.again.PushBack(c)
	}
}

func (t *table) unlist(c *call) {
	if c.again != nil {
		t.again.Remove(c.again)
		c.again, c.failure = nil, nil
	}
}

// failing is which of the table's keys have failed for some time.
func (t *table) failing(now time.Time) (again Again) {
	for at := t.again.Front(); at != nil; at = at.Next() {
		c := at.Value.(*call)
		if c.tries < tellTries || now.Sub(c.failed) < tellAfter {
			continue
		}
		if again.Keys == 0 {
			again = Again{Mapping: c.mapping, Since: c.failed, Tries: c.tries, Err: c.failure}
		}
		again.Keys++
	}
	return again
}
