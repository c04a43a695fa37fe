// Package forget tells where the data of a key still is, whose it is there, and how it goes;
// and it decides how dead letters of the key can be removed from their topic.
//
// It knows places, dead letters and how topics lose records. It knows nothing of how
// they are read or removed.
package forget

import (
	"cmp"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/words"
)

// Kind is what a place is.
type Kind string

// The kinds, in the order in which they are told.
const (
	Table    Kind = "table"
	Topic    Kind = "topic"
	Sink     Kind = "sink" // what its members hold of records that are not confirmed
	Letter   Kind = "dead letter"
	File     Kind = "file"
	Receipts Kind = "receipts"
)

var kinds = []Kind{Table, Topic, Sink, Letter, File, Receipts}

// State is what becomes of the data in a place.
type State string

// The states.
const (
	Others    State = "others"
	Removable State = "removable"
	Removed   State = "removed"
	Goes      State = "goes"
	Left      State = "left"
	Hashed    State = "hashed"
)

// Meanings are what each state says, for people.
var Meanings = words.Table{
	{"  " + string(Others), "it is the service's, or of those who write the topic: what removes it is proposed"},
	{"  " + string(Removable), "--yes removes it"},
	{"  " + string(Removed), "it was there, was removed, and a second look did not find it"},
	{"  " + string(Goes), "it goes without anybody's doing, and the line says when"},
	{"  " + string(Left), "it stays until somebody does what the line says"},
	{"  " + string(Hashed), "it is no data of the key but at most a keyed hash, which tells nothing without the secret; the line says how it goes"},
}

// Place is where data of the key is, or was.
type Place struct {
	Kind    Kind      `json:"kind"`
	Where   string    `json:"where"` // topic[partition], topic[partition]@offset, the file in the spool, or the table
	Offsets []int64   `json:"offsets,omitempty"`
	State   State     `json:"state"`
	Holds   string    `json:"holds"`
	Why     string    `json:"why,omitempty"`
	Until   time.Time `json:"until,omitzero"` // of what goes: not before then; zero: not known
	Yes     string    `json:"yes,omitempty"`  // what --yes does here
	Do      []string  `json:"do,omitempty"`   // what a person may type
}

// ours reports whether the place is one of feedsink's that has the data.
func (p *Place) ours() bool {
	return p.State != Others && p.State != Removed && p.State != Hashed
}

// Report is where the data of one key is.
type Report struct {
	Mapping string    `json:"mapping"`
	Table   string    `json:"table"`
	Key     string    `json:"key"`
	At      time.Time `json:"at"`
	Host    string    `json:"host"`            // the machine whose files were looked at
	Spool   string    `json:"spool,omitempty"` // their directory; "": it is not on this machine
	Yes     bool      `json:"yes"`             // what could be removed was
	Places  []Place   `json:"places"`
	Notes   []string  `json:"notes"`  // what could not be seen or done
	Failed  []string  `json:"failed"` // what could not be removed, and why
	Left    int       `json:"left"`   // places of feedsink's that have data of the key
}

// Actionable reports whether --yes would do anything.
func (r *Report) Actionable() bool {
	return slices.ContainsFunc(r.Places, func(p Place) bool { return p.Yes != "" })
}

// Close orders the places and counts what is left. Those of an earlier look which are not
// there any more were removed.
func (r *Report) Close(earlier []Place) {
	for _, p := range earlier {
		is := func(q Place) bool { return q.Kind == p.Kind && q.Where == p.Where }
		if p.Yes == "" || slices.ContainsFunc(r.Places, is) {
			continue
		}
		p.State, p.Why, p.Until, p.Yes, p.Do = Removed, "done: "+p.Yes, time.Time{}, "", nil
		r.Places = append(r.Places, p)
	}
	slices.SortStableFunc(r.Places, func(a, b Place) int {
		return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind))
	})
	r.Left = 0
	for i := range r.Places {
		if r.Places[i].ours() {
			r.Left++
		}
	}
}
