package contract

import "time"

// MappingStatus is what a mapping's batch lane is doing.
type MappingStatus struct {
	Mapping  string        `json:"-"`
	Bundle   string        `json:"bundle,omitempty"`  // whose import it shares
	Rows     int64         `json:"rows"`              // distinct keys in each file that waits and in the open one, within about 3 %
	Bytes    int64         `json:"bytes"`             // their uncompressed rows
	Callable int           `json:"callable,omitzero"` // of these keys, how many wait for calls in the place of their rows
	Full     int           `json:"full,omitzero"`     // files that wait, each as large as one may be; the open one follows them
	Opened   time.Time     `json:"opened,omitzero"`   // when the first of these files got its first row
	Until    time.Time     `json:"until,omitzero"`    // when the open file is due at the latest, by its age or a time of day
	Age      time.Duration `json:"-"`                 // since Opened
	Due      bool          `json:"due,omitzero"`      // they are complete, and wait for a slot or the import before them
	Import   *ImportStatus `json:"import,omitempty"`  // on its way
	Halted   string        `json:"halted,omitempty"`  // why nothing goes on until Release
	Kept     []string      `json:"kept,omitempty"`    // files in the spool for a person to look at
}

// ImportStatus is an import on its way.
type ImportStatus struct {
	Import
	Step  Step      `json:"step"`
	Since time.Time `json:"since"` // when the step began
	// WaitsFor is what reconciling waits for.
	WaitsFor string `json:"waitsFor,omitempty"`
	// LastErr is why the last try of the step, which is tried Again, came to nothing; nil: none has.
	// It may quote customers' data.
	LastErr error     `json:"-"`
	Again   time.Time `json:"-"` // zero: not known
	// Loaded says, when halted, that the file is loaded and is not sent again: released,
	// its rows in error become dead letters.
	Loaded bool `json:"loaded,omitempty"`
}

// Step is where an import stands.
type Step string

// The steps of an import, in their order, and the waits between them.
const (
	Sealing       Step = "sealing"                                        // the file is being written
	Waiting       Step = "waiting for a slot"                             // the table's imports of the day are used up or spread
	Paused        Step = "paused"                                         // a person has paused the mapping before the file was sent
	Linking       Step = "waiting for its parents"                        // rows its rows link to are not loaded yet
	Intending     Step = "recording the intent"                           // the ledger is being told that the file will be sent
	Triggering    Step = "triggering"                                     // the file is being sent
	Naming        Step = "waiting for the execution's id"                 // sent, but the answer named no execution: waiting for a Hint
	Recording     Step = "recording the execution"                        // the ledger is being told the execution
	Importing     Step = "importing"                                      // the service is at work
	Fetching      Step = "fetching output files"                          // rows were in error, or the files are kept in any case
	DeadLettering Step = "sending rows in error to the dead-letter topic" // their records are read again
	Reconciling   Step = "reconciling"                                    // it ended; keys that both lanes wrote are brought to their newest state
	Confirming    Step = "confirming"                                     // the offsets are being committed
	Halting       Step = "halted"                                         // waiting for Release
)
