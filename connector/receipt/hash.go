package receipt

import (
	"cmp"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Keys hashes the keys of rows with a secret that is read again when it changes. It may
// be used concurrently.
type Keys struct {
	read   func() (string, error)
	log    *slog.Logger
	secret atomic.Pointer[secret]
	began  time.Time
	next   atomic.Int64 // when the secret is read again, in nanoseconds after began
	mu     sync.Mutex   // held to read it
}

// readAgain is how long a secret that has changed may be in use.
const readAgain = 10 * time.Second

// secret is one secret. It may be used concurrently.
type secret struct {
	text    string
	id      string
	hashers sync.Pool
}

func newSecret(text string) *secret {
	s := &secret{text: text}
	s.hashers.New = func() any { return &Hasher{secret: s, own: newCMAC(text), tables: map[schemas.Table]*cmac{}} }
	id := newCMAC(text).sum("feedsink receipts: which secret")
	s.id = hex.EncodeToString(id[:4])
	return s
}

// Hasher hashes keys with one secret; nil: there is none. It is for one goroutine at a time.
type Hasher struct {
	secret *secret
	own    *cmac // of the secret
	tables map[schemas.Table]*cmac
	table  schemas.Table // of the last key
	of     *cmac         // that table's
}

// NewKeys reads the secret for the first time. Without read there is none, and
// keys are not hashed.
func NewKeys(read func() (string, error), log *slog.Logger) (*Keys, error) {
	k := &Keys{read: read, log: log, began: time.Now()}
	if read == nil {
		return k, nil
	}
	text, err := read()
	if err != nil {
		return nil, err
	}
	k.secret.Store(newSecret(text))
	k.next.Store(int64(readAgain))
	return k, nil
}

// now is the secret that is in use; nil: there is none.
func (k *Keys) now() *secret {
	if k.read == nil || int64(time.Since(k.began)) < k.next.Load() || !k.mu.TryLock() {
		return k.secret.Load()
	}
	defer k.mu.Unlock()
	k.next.Store(int64(time.Since(k.began) + readAgain))
	text, err := k.read()
	switch {
	case err != nil:
		k.log.Warn("the secret of receipts cannot be read; the last one stays in use", "error", err)
	case text != k.secret.Load().text:
		k.secret.Store(newSecret(text))
		k.log.Info("the secret of receipts has changed", "keyId", k.secret.Load().id)
	}
	return k.secret.Load()
}

// Hasher hashes with the secret that is in use. It is kept for some records only: the secret may
// be replaced.
func (k *Keys) Hasher() *Hasher {
	s := k.now()
	if s == nil {
		return nil
	}
	return s.hashers.Get().(*Hasher)
}

// Done gives it back.
func (h *Hasher) Done() {
	if h != nil {
		h.secret.hashers.Put(h)
	}
}

// Of is the hash of a write's key in its table: the key, or the profile's id where it has
// none.
func (k *Keys) Of(w *schemas.Write) Key {
	h := k.Hasher()
	defer h.Done()
	return h.Of(w)
}

// Hash is the hash of a key in a table.
func (k *Keys) Hash(table schemas.Table, key string) Key {
	h := k.Hasher()
	defer h.Done()
	return h.hash(table, key)
}

// Of is Keys.Of.
func (h *Hasher) Of(w *schemas.Write) Key {
	return h.hash(w.Table, cmp.Or(w.Key, w.ProfileID))
}

// hash has a key of its own for each table, so that most keys of rows are one block.
func (h *Hasher) hash(table schemas.Table, key string) Key {
	if h == nil || key == "" {
		return Key{}
	}
	if h.of == nil || h.table != table {
		h.table, h.of = table, h.ofTable(table)
	}
	return Key{ID: h.secret.id, Hash: h.of.sum(key)}
}

func (h *Hasher) ofTable(table schemas.Table) *cmac {
	of := h.tables[table]
	if of == nil {
		name := table.Name
		if table.Custom { // a profile table may have the same name
			name = "\x01" + name
		}
		key := h.own.sum(name)
		of = keyedCMAC(key[:])
		h.tables[table] = of
	}
	return of
}
