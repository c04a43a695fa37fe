package batcher

import (
	"slices"
	"time"
)

// MappingStatus is what a mapping's batch lane is doing.
type MappingStatus struct {
	Mapping string        `json:"-"`
	Bundle  string        `json:"bundle,omitempty"` // whose import it shares
	Rows    int64         `json:"rows"`             // distinct keys in the open file, within about 3 %
	Bytes   int64         `json:"bytes"`            // their uncompressed rows
	Opened  time.Time     `json:"opened,omitzero"`  // when the open file got its first row
	Age     time.Duration `json:"-"`                // since then
	Import  *ImportStatus `json:"import,omitempty"` // on its way
	Halted  string        `json:"halted,omitempty"` // why nothing goes on until Release
	Kept    []string      `json:"kept,omitempty"`   // files in the spool for a person to look at
}

// ImportStatus is an import on its way.
type ImportStatus struct {
	Import
	Step  Step      `json:"step"`
	Since time.Time `json:"since"` // when the step began
	// WaitsFor is what reconciling waits for.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Loaded says, when halted, that the file is loaded and is not sent again: released,
	// its rows in error become dead letters.
	Loaded bool `json:"loaded,omitempty"`
}

// Step is where an import stands.
type Step string

// The steps of an import, in their order, and the waits between them.
const (
	Sealing    Step = "sealing"                 // the file is being written
	Waiting    Step = "waiting for a slot"      // the table's imports of the day are used up or spread
	Linking    Step = "waiting for its parents" // rows its rows link to are not loaded yet
	Intending  Step = "intending"               // the ledger is being told that the file will be sent
	Triggering Step = "triggering"              // the file is being sent
	Naming     Step = "naming"                  // sent, but the answer named no execution: waiting for a Hint
	Recording  Step = "recording"               // the ledger is being told the execution
	Importing  Step = "importing"               // the service is at work
	Fetching   Step = "fetching errors"         // rows were in error, their file is being fetched
	RowErrors  Step = "burying rows in error"   // their records are read again and become dead letters
	Settling   Step = "settling"                // it ended; keys that both lanes wrote are brought to their newest state
	Confirming Step = "confirming"              // the offsets are being committed
	Halting    Step = "halted"                  // waiting for Release
)

// Status lists the mappings in the order of the configuration.
func (b *Batcher) Status() []MappingStatus {
	var all []MappingStatus
	for _, l := range b.lines {
		for _, m := range l.members {
			all = append(all, m.status())
		}
	}
	return all
}

// Halted reports whether the mapping waits for Release, and why. While it does,
// its partitions should be paused: nothing that is appended goes out.
func (b *Batcher) Halted(mapping string) (reason string, halted bool) {
	m, ok := b.byName[mapping]
	if !ok {
		return "", false
	}
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		return "", false
	}
	return l.running.halted, l.running.halted != ""
}

// LastServiceMessage is what the service said last about an import of the mapping that went
// wrong, since this process has its table; false: nothing.
func (b *Batcher) LastServiceMessage(mapping string) (ServiceMessage, bool) {
	m, ok := b.byName[mapping]
	if !ok {
		return ServiceMessage{}, false
	}
	m.line.mu.Lock()
	defer m.line.mu.Unlock()
	return m.line.lastMessage, m.line.lastMessage.File != ""
}

// SpoolBytes is what journals, sealed and kept files take on disk.
func (b *Batcher) SpoolBytes() int64 { return b.spool.Used() }

// Full reports that the spool has reached its limit. Appending still works; the
// partitions should be paused until files were confirmed. It is not full while a
// generation that is built again lacks records: nothing can go out before them,
// so that waiting would not make room.
func (b *Batcher) Full() bool {
	return b.spool.Used() >= b.cfg.MaxBytes && !slices.ContainsFunc(b.lines, (*tableQueue).lacksRecords)
}

func (l *tableQueue) lacksRecords() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rebuilding != nil && len(l.rebuilding.upTo) > 0
}
