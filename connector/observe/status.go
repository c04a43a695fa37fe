package observe

import (
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/kafka"
)

// Status is the running sink as an operator sees it, at /status.
type Status struct {
	Version string    `json:"version"`
	Member  string    `json:"member,omitempty"` // the name of its machine, which is its pod's
	Started time.Time `json:"started"`
	At      time.Time `json:"at"` // when this was so
	Ready   bool      `json:"ready"`
	Unready []string  `json:"unready,omitempty"` // why not
	// Stopping is until when the calls in flight may take to end, as it stops; zero: it goes on.
	Stopping time.Time `json:"stopping,omitzero"`
	Token    bool      `json:"token"` // the service gave one
	// TokenRefused is the status with which the last request for a token was refused; 0: it was
	// not, or no answer came.
	TokenRefused int           `json:"tokenRefused,omitempty"`
	Schemas      string        `json:"schemas,omitempty"` // why records that need a schema wait
	Reload       *ReloadStatus `json:"reload,omitempty"`  // nil: the configuration is the one of the start
	// Waits are what the lanes of this process wait for.
	Waits []Wait       `json:"waits"`
	Lanes []LaneStatus `json:"lanes"`
	Spool *SpoolStatus `json:"spool,omitempty"` // batch lane
	// DeadLetters are those since this process began, the most frequent first.
	DeadLetters []RecentDeadLetter `json:"deadLetters"`
	Mappings    []MappingStatus    `json:"mappings"`
}

// SpoolStatus is the disk space of files that wait.
type SpoolStatus struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"maxBytes"` // at this size the batch lane pauses
	// FreeBytes is what its disk has left; nil: not known.
	FreeBytes *int64 `json:"freeBytes,omitempty"`
}

// LaneStatus is one consumer group.
type LaneStatus struct {
	Lane       string                  `json:"lane"`
	Group      string                  `json:"group"`
	Joined     bool                    `json:"joined"`
	Partitions []kafka.PartitionStatus `json:"partitions"`
	Calls      *CallStatus             `json:"calls,omitempty"` // immediate lane
}

// CallStatus is how the immediate lane drives the service.
type CallStatus struct {
	Pending  int    `json:"pending"` // writes not confirmed
	InFlight int    `json:"inFlight"`
	Limit    int    `json:"limit"`   // calls that may be in flight
	Breaker  string `json:"breaker"` // of the table whose breaker is worst
	// Cause is what opened a breaker last, until all are closed.
	Cause string `json:"cause,omitempty"`
	// Waits are what holds calls back, and until when.
	Waits []WaitStatus `json:"waits,omitempty"`
}

// MappingStatus is one mapping.
type MappingStatus struct {
	Name   string   `json:"name"`
	Table  string   `json:"table"`
	Topics []string `json:"topics"`
	Lanes  []string `json:"lanes"`
	// Pending is how many writes of the immediate lane are not confirmed.
	Pending int    `json:"pending,omitempty"`
	Bundle  string `json:"bundle,omitempty"` // whose files go as one, with one import for all its mappings
	// Oldest is the age in seconds of the oldest record that is not confirmed, by the lanes
	// of this process; 0: there is none.
	Oldest map[string]float64 `json:"oldestUnconfirmedSeconds"`
	// Objectives are those of its routes that lead to the lanes of this process.
	Objectives []ObjectiveStatus `json:"objectives,omitempty"`
	Halted     []string          `json:"halted,omitempty"`
	Paused     []PauseStatus     `json:"paused,omitempty"` // lanes, by a person
	// Release is the command that lets a halted mapping go on; empty if it is not halted, or a release does not help.
	Release string                  `json:"release,omitempty"`
	Batch   *contract.MappingStatus `json:"batch,omitempty"`
	Roll    *RollStatus             `json:"roll,omitempty"`
	Due     time.Time               `json:"due,omitzero"` // when the open file is sent at the latest, as OpenFile has it
	Day     *DayStatus              `json:"day,omitempty"`
}

// ObjectiveStatus is how fresh the records of a route are to be, and were.
type ObjectiveStatus struct {
	Route     string   `json:"route"` // its name, or its number from 1
	Lane      string   `json:"lane"`
	Within    float64  `json:"withinSeconds"`  // from a record's Kafka timestamp to its confirmation
	Objective float64  `json:"objective"`      // the share of the records that are to be within it
	Records   int64    `json:"records"`        // that this process has confirmed in the last hour
	Kept      *float64 `json:"kept,omitempty"` // the share of these that was within it; nil: there are none
}

// PauseStatus is a lane of a mapping that a person has paused.
type PauseStatus struct {
	Lane   string    `json:"lane"`
	At     time.Time `json:"at"`             // when it was said last
	Until  time.Time `json:"until,omitzero"` // then it goes on by itself; zero: never
	Reason string    `json:"reason,omitempty"`
}

// Paused is what is paused after a pause or resume.
type Paused struct {
	Mapping string        `json:"mapping"`
	Bundle  string        `json:"bundle,omitempty"` // whose files all wait with the mapping's
	Paused  []PauseStatus `json:"paused"`           // none: all lanes go on
}

// DayStatus is a table's calendar day: its slots and what became of them.
type DayStatus struct {
	Zone    string    `json:"zone"` // whose calendar the day follows
	Begins  time.Time `json:"begins"`
	Ends    time.Time `json:"ends"`
	PerDay  int       `json:"perDay"`
	Reserve int       `json:"reserve"` // of these, kept back for further tries
	// Owned says that this process has the table; otherwise another member knows
	// what follows, or none yet.
	Owned   bool          `json:"owned"`
	Left    int           `json:"left"`          // the reserve included
	Used    []UsedSlots   `json:"used"`          // in the order of time
	Next    time.Time     `json:"next,omitzero"` // before then no new import begins; zero: one may at once
	Imports []EndedImport `json:"imports"`       // results that this process has seen today, the oldest first
}

// UsedSlots are imports that began in the same second, or long ago, in the same
// quarter of an hour: the ledger rounds.
type UsedSlots struct {
	At    time.Time `json:"at"`
	Count int       `json:"count"`
}

// RollStatus is when an open file is complete: at the first of these; 0: there is no such
// limit.
type RollStatus struct {
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"`        // uncompressed
	Seconds float64  `json:"seconds"`      // since its first row
	At      []string `json:"at,omitempty"` // times of day in the day's zone
}

// MappingImports is the batch lane of one mapping, at /imports.
type MappingImports struct {
	Mapping string `json:"mapping"`
	Table   string `json:"table"`
	Bundle  string `json:"bundle,omitempty"` // whose import it shares; a release is for all of its mappings
	// Owned says that this process has the table. Another member has it
	// otherwise, or none yet; what follows is then empty but for Owner, who that is.
	Owned       bool                   `json:"owned"`
	Owner       string                 `json:"owner,omitempty"`
	SlotsLeft   *int                   `json:"slotsLeft,omitempty"` // imports left today, the reserve included
	SlotsPerDay int                    `json:"slotsPerDay"`
	Open        *OpenFile              `json:"open,omitempty"`
	Import      *contract.ImportStatus `json:"import,omitempty"` // on its way
	Halted      string                 `json:"halted,omitempty"` // why the import, or the mapping's records, wait for a release
	Paused      *PauseStatus           `json:"paused,omitempty"` // by a person: no file is sent
	Waits       []Wait                 `json:"waits,omitempty"`  // what its batch lane waits for
	Kept        []string               `json:"kept,omitempty"`   // files in the spool for a person to look at
}

// OpenFile is the file that takes rows, and those before it that wait as they are.
type OpenFile struct {
	Rows  int64     `json:"rows"`          // distinct keys of each, within about 3 %
	Bytes int64     `json:"bytes"`         // uncompressed
	Since time.Time `json:"since"`         // their first row
	Full  int       `json:"full,omitzero"` // how many wait, each as large as a file may be
	// Due is when the next one is sent at the latest, if it does not fill up before: its
	// time, or the table's next slot, if that is later. Zero: not while the mapping is
	// halted, is paused or has an import on its way.
	Due time.Time `json:"due,omitzero"`
}

// Rolled is what becomes of an open file that is to be sent now.
type Rolled struct {
	Mapping string   `json:"mapping"`
	Bundle  string   `json:"bundle,omitempty"`  // with all rows of which it goes
	Files   []string `json:"files,omitempty"`   // the imports that it has become, in their order
	After   string   `json:"after,omitempty"`   // the file on its way: it goes next, as soon as a slot is there
	Nothing bool     `json:"nothing,omitempty"` // the other lane has overruled all of its rows: there is nothing to send
}

// Released is what goes on after a release.
type Released struct {
	Mapping   string   `json:"mapping"`
	File      string   `json:"file,omitempty"`      // sent again
	Loaded    bool     `json:"loaded,omitempty"`    // the file is not sent again: its rows in error become dead letters
	SlotsLeft *int     `json:"slotsLeft,omitempty"` // imports left today, the reserve included
	Lanes     []string `json:"lanes,omitempty"`     // in which its records, of which nearly all were refused alike, are tried again
}

// LastMessage is what the service said about a mapping's import that went wrong.
type LastMessage struct {
	Mapping string                   `json:"mapping"`
	Said    *contract.ServiceMessage `json:"said,omitempty"` // nil: nothing, as far as this process heard
}

// WaitStatus is why calls wait, and until when.
type WaitStatus struct {
	Table string    `json:"table,omitempty"` // empty: calls for any table
	Until time.Time `json:"until,omitzero"`  // then one call is tried; zero: that time has come, or writes are tried again one by one
	Why   string    `json:"why"`
}

// Wait is something that a lane waits for, and goes on by itself after.
type Wait struct {
	Cause   string    `json:"cause"` // as feedsink_waiting names it
	Lane    string    `json:"lane"`
	Mapping string    `json:"mapping,omitempty"`
	Topic   string    `json:"topic,omitempty"`
	Table   string    `json:"table,omitempty"`
	Member  string    `json:"member,omitempty"` // another one, by the name of its machine
	Until   time.Time `json:"until,omitzero"`   // zero: not known, or it has come
	Why     string    `json:"why"`
}

// ReloadStatus is what became of the configuration file when it was last read again.
type ReloadStatus struct {
	At          time.Time `json:"at"`
	Error       string    `json:"error,omitempty"` // why the former configuration is in use
	NeedRestart []string  `json:"needRestart,omitempty"`
}
