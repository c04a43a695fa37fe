package connector

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/deadletter"
)

// RecentDeadLetter are the records of one topic that went to the dead-letter topic
// for one reason since this process began.
type RecentDeadLetter struct {
	Topic   string       `json:"topic"`             // empty: rows of files that match no record; their partitions and offsets say nothing
	Mapping string       `json:"mapping,omitempty"` // empty: the record could not even be decoded
	Reason  string       `json:"reason"`            // the code of the dead letter's header
	Count   int64        `json:"count"`
	Latest  []DeadLetter `json:"latest"` // a few, the newest first
}

// DeadLetter is where a dead letter came from: where it can be found, nothing of
// what it says.
type DeadLetter struct {
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	At        time.Time `json:"at"`
}

// EndedImport is an execution whose result this process has seen.
type EndedImport struct {
	File      string    `json:"file"`
	Mode      string    `json:"mode"`
	Execution string    `json:"execution,omitempty"`
	Status    string    `json:"status"` // FINISHED or FAILED
	Rows      int64     `json:"rows"`
	InError   int64     `json:"inError,omitzero"`
	Began     time.Time `json:"began"` // its trigger
	Ended     time.Time `json:"ended"`
}

// What is kept of each kind: enough to look at, whatever happens.
const (
	deadLettersKept = 5
	importsKept     = 48
)

// recentHistory remembers what an operator wants to see of things that are over. It
// is lost with the process; what must not be lost stands in the ledger, the
// dead-letter topic and the metrics.
type recentHistory struct {
	mu      sync.Mutex
	letters map[deadLetterKind]*RecentDeadLetter // as many as mappings have topics and reasons
	imports map[string][]EndedImport             // by mapping, the oldest first
}

type deadLetterKind struct{ topic, mapping, reason string }

func newRecentHistory() *recentHistory {
	return &recentHistory{letters: map[deadLetterKind]*RecentDeadLetter{}, imports: map[string][]EndedImport{}}
}

// deadLetter notes a dead letter that Kafka has acknowledged, and counts those of
// its kind.
func (l *recentHistory) deadLetter(r *deadletter.Record, why deadletter.Reason) (count int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := deadLetterKind{r.Topic, why.Mapping, why.Code}
	d := l.letters[kind]
	if d == nil {
		d = &RecentDeadLetter{Topic: r.Topic, Mapping: why.Mapping, Reason: why.Code}
		l.letters[kind] = d
	}
	d.Count++
	d.Latest = slices.Insert(d.Latest, 0, DeadLetter{Partition: r.Partition, Offset: r.Offset, At: time.Now()})
	d.Latest = d.Latest[:min(len(d.Latest), deadLettersKept)]
	return d.Count
}

// noteDeadLetter notes a dead letter and logs the first of its kind, the tenth, the
// hundredth and so on: whoever looks at the log alone must see that there are
// some. The letter's message may quote the record and is not for the log.
func (l *lane) noteDeadLetter(r *deadletter.Record, why deadletter.Reason) {
	count := l.recent.deadLetter(r, why)
	leading := count
	for leading%10 == 0 {
		leading /= 10
	}
	if leading == 1 {
		l.log.Warn("records became dead letters; feedsink dlq list says why", "topic", r.Topic, "partition", r.Partition,
			"offset", r.Offset, "mapping", why.Mapping, "reason", why.Code, "status", why.Status, "count", count)
	}
}

// imported notes the result of an execution for one of the mappings that it loads.
func (l *recentHistory) imported(imp batcher.Import, load batcher.Member, status string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	list := append(l.imports[load.Mapping], EndedImport{
		File: imp.File, Mode: imp.Mode, Execution: imp.Execution, Status: status,
		Rows: load.Rows, InError: load.InError, Began: now.Add(-took), Ended: now,
	})
	l.imports[load.Mapping] = slices.Delete(list, 0, max(len(list)-importsKept, 0))
}

// deadLetters lists the kinds that there were, the most frequent first.
func (l *recentHistory) deadLetters() []RecentDeadLetter {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]RecentDeadLetter, 0, len(l.letters))
	for _, d := range l.letters {
		one := *d
		one.Latest = slices.Clone(d.Latest)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b RecentDeadLetter) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Mapping, b.Mapping), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// importsSince lists a mapping's imports that ended after a time, the oldest first.
func (l *recentHistory) importsSince(mapping string, from time.Time) []EndedImport {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := []EndedImport{}
	for _, e := range l.imports[mapping] {
		if !e.Ended.Before(from) {
			since = append(since, e)
		}
	}
	return since
}
