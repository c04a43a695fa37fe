// Package pause knows which lanes of which mappings a person has paused: what was said
// last counts, whichever member heard it.
//
// It knows ledgers' entries and the time. It knows nothing of Kafka, lanes at work or
// the admin server.
package pause

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/feedsink/feedsink/connector/ack"
)

// Of is one lane of a mapping.
type Of struct {
	Mapping uint64 // of its name, as ledgers have it
	Batch   bool   // the batch lane; else the immediate one
}

// Known is what a member knows of pauses. Its methods may be called from any goroutine.
type Known struct {
	mu   sync.Mutex
	last map[Of]ack.Pause // what was said last
}

// forgetAfter is how long it is remembered that a lane was resumed: until then each
// member has committed that, and a pause that a ledger still shows is from before.
const forgetAfter = time.Hour

// forgetUnusedAfter is the same where a lane is not used: by then Kafka has let go of its offsets, of
// which nothing is committed (offsets.retention.minutes), unless that is set far beyond its default of 7 days.
const forgetUnusedAfter = 30 * 24 * time.Hour

// Say notes what a person says now, and keeps it apart from all that was said before by
// whatever clock.
func (k *Known) Say(p ack.Pause) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := Of{p.Mapping, p.Batch}
	p.At = max(time.Now().UnixMilli(), k.last[of].At+1)
	k.note(of, p)
}

// Learn takes over what ledgers have, where it is newer.
func (k *Known) Learn(found []ack.Pause) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range found {
		if of := (Of{p.Mapping, p.Batch}); p.At > k.last[of].At {
			k.note(of, p)
		}
	}
}

func (k *Known) note(of Of, p ack.Pause) {
	if k.last == nil {
		k.last = map[Of]ack.Pause{}
	}
	k.last[of] = p
}

// Forget lets go of what has ended long ago, if no ledger of those found says otherwise. Those of
// unused lanes are not found, and say what they said last.
func (k *Known) Forget(found []ack.Pause, unused map[Of]bool) {
	now := time.Now()
	shown := map[Of]bool{}
	for _, p := range found {
		if GoesOn(p, now) {
			shown[Of{p.Mapping, p.Batch}] = true
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for of, p := range k.last {
		after := forgetAfter
		if unused[of] {
			after = forgetUnusedAfter
		}
		if !GoesOn(p, now) && !shown[of] && now.Sub(time.UnixMilli(max(p.At, p.Until))) > after {
			delete(k.last, of)
		}
	}
}

// Paused is the pause of a lane, if it goes on.
func (k *Known) Paused(of Of) (p ack.Pause, yes bool) {
	p, known := k.Last(of)
	return p, known && !p.Resumed
}

// Last is what was said last of a lane, for ledgers. A pause whose time is over is
// resumed in it.
func (k *Known) Last(of Of) (p ack.Pause, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, known = k.last[of]
	p.Resumed = known && !GoesOn(p, time.Now())
	return p, known
}

// Knows reports whether anything was said of a lane that is remembered.
func (k *Known) Knows(of Of) bool {
	_, known := k.Last(of)
	return known
}

// GoesOn reports whether a pause is in force.
func GoesOn(p ack.Pause, now time.Time) bool {
	return !p.Resumed && (p.Until == 0 || now.UnixMilli() < p.Until)
}

// longestReason is how many characters of a pause's reason are taken: ledgers are small.
const longestReason = 100

// CheckReason reports why a ledger takes no pause for that reason.
func CheckReason(reason string) error {
	switch {
	case utf8.RuneCountInString(reason) > longestReason:
		return fmt.Errorf("may have %d characters at most", longestReason)
	case slices.ContainsFunc([]rune(reason), unicode.IsControl):
		return errors.New("must be one line of text")
	}
	return nil
}
