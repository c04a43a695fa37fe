// Package waiting keeps the rows of a mapping's open file that wait for calls in their
// place: which of them wait, and what has become of the calls. All rows of a key wait here
// or none, and they are called one after the other.
//
// It knows nothing of files, of how calls are made, or of when it is time for one, and is
// not safe for concurrent use.
package waiting

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/schemas"
)

// Offer is what is known of a row that may be called instead.
type Offer struct {
	Callable bool // there is a call for the write, and its route allows it; else the row only keeps its place behind others of its key
	Route    int
	Within   time.Duration // how old the record may be when the service has it; 0: no matter
	Spare    bool          // it is called with the rate that is left; else only if no file can bring it in time
	Written  time.Time     // when its record was written
	Bytes    int64         // what the record takes in memory
	// Pending begins to hold the record by itself. It is called with a lock held, at
	// most once, and must not call back.
	Pending func() contract.Pending
}

// Rows are the rows of a mapping's open file that wait for calls. They belong to one set
// of assignments.
type Rows struct {
	byKey   map[string]*Key
	order   []*Key         // oldest row first
	hashes  map[uint64]int // of the keys, and how many have it
	moved   map[*Row]bool  // are in the open file, while their calls are in flight
	doubted []string       // keys of such rows whose calls may land though they have ended
	called  map[int]int    // keys whose first row is Calling or Ending, by its route
	records int
	bytes   int64
	total   *atomic.Int64 // bytes of all mappings
}

// Key is the rows of a key, in their order.
type Key struct {
	Hash   uint64
	Rows   []*Row
	State  State     // of the first row
	Tries  int       // of the first row, which came to nothing
	Due    time.Time // no call before
	ByFile bool      // the rows go by file: one of them cannot be called

	name    string
	landing *Landing // of the first row, which is Landed
}

// Row is one call, of writes that were merged.
type Row struct {
	Offer   // of the first write
	Write   schemas.Write
	At      reconcile.At // of its newest record
	Number  int64        // of the generation that was open
	Came    time.Time
	Records []contract.Pending
	bytes   int64
}

// State is what becomes of the first row of a key.
type State uint8

// The states of a first row, in their order. A call that comes to nothing, and what has
// ended, leave the key Resting.
const (
	Resting State = iota // it waits for a call
	Calling              // it is being called
	Landed               // its call has landed; it is not known yet whether that counts
	Ending               // its records are being confirmed, or become dead letters
)

// Landing is a call that has landed and is not confirmed yet.
type Landing struct {
	Key     *Key
	Row     *Row
	Outcome string
	End     int64 // of its partition, once the call had landed; 0: not known yet
}

// New returns none. total counts the bytes that the rows of all mappings take.
func New(total *atomic.Int64) *Rows {
	return &Rows{byKey: map[string]*Key{}, hashes: map[uint64]int{}, moved: map[*Row]bool{}, called: map[int]int{}, total: total}
}

// Key is what waits of a key; nil: nothing.
func (r *Rows) Key(key string) *Key { return r.byKey[key] }

// Has reports whether a row waits whose key has the hash.
func (r *Rows) Has(hash uint64) bool { return r.hashes[hash] > 0 }

// Keys are those of which rows wait, the one with the oldest row first.
func (r *Rows) Keys() []*Key { return slices.Clone(r.order) }

// Len is how many keys wait.
func (r *Rows) Len() int { return len(r.order) }

// Records is how many records wait.
func (r *Rows) Records() int { return r.records }

// Calls is how many rows are being called, or become dead letters: also rows that are in
// the open file by now.
func (r *Rows) Calls() int {
	n := len(r.moved)
	for _, of := range r.called {
		n += of
	}
	return n
}

// Oldest is when the oldest row came, and when its record was written; zero: there is none.
func (r *Rows) Oldest() (came, written time.Time) {
	if len(r.order) > 0 {
		came, written = r.order[0].Rows[0].Came, r.order[0].Rows[0].Written
	}
	return came, written
}

// Add takes a row of a record at a place, which came while the generation of that number
// was open. said is the write as it is to be called, and k what waits of its key.
func (r *Rows) Add(k *Key, said *schemas.Write, o *Offer, at reconcile.At, number int64) {
	own, bytes := said.Own()
	if k == nil {
		k = &Key{Hash: xxhash.Sum64String(own.Key), name: own.Key}
		r.byKey[k.name], r.order = k, append(r.order, k)
		r.hashes[k.Hash]++
	}
	bytes += o.Bytes
	r.records, r.bytes = r.records+1, r.bytes+bytes
	r.total.Add(bytes)
	k.ByFile = k.ByFile || !o.Callable
	record := o.Pending()
	if row := k.mergeable(number); row != nil && o.Callable && schemas.MergeInto(&row.Write, &own) {
		row.Records, row.bytes, row.At = append(row.Records, record), row.bytes+bytes, at
		return
	}
	k.Rows = append(k.Rows, &Row{Offer: *o, Write: own, At: at, Number: number, Came: time.Now(), bytes: bytes, Records: []contract.Pending{record}})
}

// mergeable is the key's last row if more writes of its file may become one with it: it can
// be called, and no call of it has been made; nil: it is not.
func (k *Key) mergeable(number int64) *Row {
	last := len(k.Rows) - 1
	started := last == 0 && k.Called()
	if last < 0 || started || k.Rows[last].Number != number || !k.Rows[last].Callable {
		return nil
	}
	return k.Rows[last]
}

// Called reports whether the key's first row is being called, or was.
func (k *Key) Called() bool { return k.State != Resting || k.Tries > 0 }

// Forget takes out the key's first row.
func (r *Rows) Forget(k *Key) {
	row := k.Rows[0]
	k.Rows, k.Tries, k.Due = k.Rows[1:], 0, time.Time{}
	r.records -= len(row.Records)
	r.bytes -= row.bytes
	r.total.Add(-row.bytes)
	i := slices.Index(r.order, k)
	r.order = slices.Delete(r.order, i, i+1)
	if len(k.Rows) > 0 { // its turn is that of the oldest row that is left
		at, _ := slices.BinarySearchFunc(r.order, k.Rows[0].Came, func(other *Key, came time.Time) int { return other.Rows[0].Came.Compare(came) })
		r.order = slices.Insert(r.order, at, k)
		return
	}
	delete(r.byKey, k.name)
	if r.hashes[k.Hash]--; r.hashes[k.Hash] == 0 {
		delete(r.hashes, k.Hash)
	}
}

// Keep leaves these of the records of the key's first row, and has them go by file. If
// there are none the row is forgotten.
func (r *Rows) Keep(k *Key, left []contract.Pending) {
	if len(left) == 0 {
		r.Forget(k)
		return
	}
	row := k.Rows[0]
	r.records -= len(row.Records) - len(left)
	row.Records, k.ByFile = left, true
}

// Drop gives back what the rows take of the total: their assignments end.
func (r *Rows) Drop() { r.total.Add(-r.bytes) }
