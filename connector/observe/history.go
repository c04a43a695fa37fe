package observe

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
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
	InError   *int64    `json:"inError,omitempty"` // nil: the service does not say
	Began     time.Time `json:"began"`             // its trigger
	Ended     time.Time `json:"ended"`
}

// What is kept of each kind: enough to look at, whatever happens.
const (
	deadLettersKept = 5
	importsKept     = 48
)

// History remembers what an operator wants to see of things that are over. It
// is lost with the process; what must not be lost is in the ledger, the
// dead-letter topic and the metrics.
type History struct {
	mu      sync.Mutex
	letters map[deadLetterKind]*RecentDeadLetter // as many as mappings have topics and reasons
	imports map[string][]EndedImport             // by mapping, the oldest first
}

type deadLetterKind struct{ topic, mapping, reason string }

// NewHistory is one of nothing yet.
func NewHistory() *History {
	return &History{letters: map[deadLetterKind]*RecentDeadLetter{}, imports: map[string][]EndedImport{}}
}

// DeadLetter notes a dead letter that Kafka has acknowledged, and counts those of
// its kind.
func (l *History) DeadLetter(r *deadletter.Record, why deadletter.Reason) (count int64) {
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

// loaded are the mappings that an import was of, with their rows in error.
func loaded(imp contract.Import, r contract.Results) []contract.Member {
	all := imp.Loads()
	if imp.Members == nil { // of a bundle the counters are of all together
		all[0].InError = r.InError
	}
	return all
}

// ImportEnded notes the result of an execution for each of the mappings that it loads.
func (l *History) ImportEnded(imp contract.Import, r contract.Results, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, load := range loaded(imp, r) {
		inError := &load.InError
		if load.InError < 0 || r.Status != contract.Finished {
			inError = nil
		}
		list := append(l.imports[load.Mapping], EndedImport{
			File: imp.File, Mode: imp.Mode, Execution: imp.Execution, Status: string(r.Status),
			Rows: load.Rows, InError: inError, Began: now.Add(-took), Ended: now,
		})
		l.imports[load.Mapping] = slices.Delete(list, 0, max(len(list)-importsKept, 0))
	}
}

// DeadLetters lists the kinds that there were, the most frequent first.
func (l *History) DeadLetters() []RecentDeadLetter {
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

// ImportsSince lists a mapping's imports that ended after a time, the oldest first.
func (l *History) ImportsSince(mapping string, from time.Time) []EndedImport {
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

// LogDeadLetter notes a dead letter and logs the first of its kind, the tenth, the
// hundredth and so on: the log alone has to show that there are some. The dead letter's message may quote the record and is not for the log.
func (l *History) LogDeadLetter(log *slog.Logger, r *deadletter.Record, why deadletter.Reason) {
	count := l.DeadLetter(r, why)
	leading := count
	for leading%10 == 0 {
		leading /= 10
	}
	if leading == 1 {
		log = log.With("topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "mapping", why.Mapping, "reason", why.Code)
		if why.Status != 0 { // 0: the service was not asked
			log = log.With("status", why.Status)
		}
		log.Warn("records became dead letters; feedsink dlq list says why", "count", count)
	}
}
