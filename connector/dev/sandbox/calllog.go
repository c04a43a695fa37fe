package sandbox

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// operations is one more than the highest operation of the document.
const operations = 16

// Call is one call that the service received, as the sandbox saw it. It never
// carries a key or a token.
type Call struct {
	Seq     int64          `json:"seq"`              // order of application; a call that was not applied stands where it was answered
	At      time.Time      `json:"at"`               // when it was received
	Op      int            `json:"op"`               // operation of the document, 1 to 15
	Table   string         `json:"table,omitempty"`  // table it names; of operation 10, the ETL's tables
	Key     string         `json:"key,omitempty"`    // unique key or business key; of an import, the file's name
	ID      string         `json:"id,omitempty"`     // profile id or execution id
	Values  map[string]any `json:"values,omitempty"` // what the body says, by column name
	Digest  string         `json:"digest,omitempty"` // of the body's bytes
	Status  int            `json:"status"`           // as answered; 0: the client got no answer
	Applied bool           `json:"applied"`          // the service did what was asked
	TokenOK bool           `json:"tokenOK"`          // the bearer token was known and fresh
	Fault   bool           `json:"fault,omitempty"`  // an injected fault decided this call
}

// callLog counts calls and keeps the last of them.
type callLog struct {
	counts [operations]atomic.Int64
	seq    atomic.Int64 // taken under a table's lock by what is applied to it

	mu    sync.Mutex
	limit int
	calls []Call // a ring once it is full
	next  int
}

// add keeps a call that has been decided. It costs nothing when none are kept.
func (l *callLog) add(c Call) {
	if l.limit == 0 {
		return
	}
	if c.Seq == 0 {
		c.Seq = l.seq.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) < l.limit {
		l.calls = append(l.calls, c)
		return
	}
	l.calls[l.next] = c
	l.next = (l.next + 1) % l.limit
}

// Calls returns the calls that are kept, in the order in which they were
// applied. Config.KeepCalls says how many that are. Values are shared and not
// to be changed.
func (s *Sandbox) Calls() []Call {
	s.log.mu.Lock()
	calls := slices.Clone(s.log.calls)
	s.log.mu.Unlock()
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.Seq, b.Seq) })
	return calls
}

// CallCount tells how many calls of an operation were received, whatever became
// of them. CallCount(14) is the number of token requests.
func (s *Sandbox) CallCount(op int) int64 { return s.log.counts[op].Load() }

// counts is CallCount of every operation.
func (s *Sandbox) counts() map[int]int64 {
	counts := map[int]int64{}
	for op := 1; op < operations; op++ {
		counts[op] = s.CallCount(op)
	}
	return counts
}

// digest tells bodies apart in the log without keeping them.
func digest(body []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(body) // a hash's Write returns no error
	return strconv.FormatUint(h.Sum64(), 16)
}
