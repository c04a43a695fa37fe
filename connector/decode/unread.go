package decode

import (
	"log/slog"
	"sync"

	"github.com/feedsink/feedsink/router"
)

// Unread names the fields of values that no mapping of their topic reads, each once:
// a source may begin to send what the table should have. It is safe for concurrent
// use.
type Unread struct {
	log   *slog.Logger
	count func(topic string, fields int)

	mu    sync.Mutex
	known map[string]map[string]bool // by topic and path
}

// NewUnread is told how to count the fields that are found.
func NewUnread(log *slog.Logger, count func(topic string, fields int)) *Unread {
	return &Unread{log: log, count: count, known: map[string]map[string]bool{}}
}

const (
	lookEvery = 256 // one of so many records of a topic is looked at, and the first so many
	maxUnread = 100 // fields of a topic
)

// look names the fields of a record that were not seen before.
func (u *Unread) look(t *router.Topic, rec *router.Record) {
	paths := t.Unread(rec)
	if len(paths) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	known := u.known[rec.Topic]
	if known == nil {
		known = map[string]bool{}
		u.known[rec.Topic] = known
	}
	var found []string
	for _, path := range paths {
		if !known[path] && len(known) < maxUnread && router.IsFieldName(path) {
			known[path] = true
			found = append(found, path)
		}
	}
	if len(found) > 0 {
		u.log.Info("new fields that no mapping reads", "topic", rec.Topic, "fields", found)
		u.count(rec.Topic, len(found))
	}
}
