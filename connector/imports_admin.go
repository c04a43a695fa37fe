package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/service"
)

// MappingImports is the batch lane of one mapping, at /imports.
type MappingImports struct {
	Mapping string `json:"mapping"`
	Table   string `json:"table"`
	Bundle  string `json:"bundle,omitempty"` // whose import it shares; a release is for all of its mappings
	// Owned says that this process has the table. Another member has it
	// otherwise, or nobody yet; what follows is then empty.
	Owned       bool                  `json:"owned"`
	SlotsLeft   *int                  `json:"slotsLeft,omitempty"` // imports left today, the reserve included
	SlotsPerDay int                   `json:"slotsPerDay"`
	Open        *OpenFile             `json:"open,omitempty"`
	Import      *batcher.ImportStatus `json:"import,omitempty"` // on its way
	Halted      string                `json:"halted,omitempty"` // why the import waits for a release
	Kept        []string              `json:"kept,omitempty"`   // files in the spool for a person to look at
}

// OpenFile is the file that takes rows.
type OpenFile struct {
	Rows  int64     `json:"rows"`  // distinct keys, within about 3 %
	Bytes int64     `json:"bytes"` // uncompressed
	Since time.Time `json:"since"` // its first row
}

// Released is what goes on after a release.
type Released struct {
	Mapping   string   `json:"mapping"`
	File      string   `json:"file,omitempty"`      // sent again
	Loaded    bool     `json:"loaded,omitempty"`    // the file is not sent again: its rows in error become dead letters
	SlotsLeft *int     `json:"slotsLeft,omitempty"` // imports left today, the reserve included
	Lanes     []string `json:"lanes,omitempty"`     // in which its records, of which nearly all were refused alike, are tried again
}

// importsAPI is where an operator sees and steers the batch lane, through the admin
// server.
type importsAPI struct{ sink *Sink }

// Imports lists the mappings of the batch lane, none if this process does not
// run it. Its type is []MappingImports.
func (d importsAPI) Imports() any {
	list := []MappingImports{}
	if d.sink.files != nil {
		for _, st := range d.sink.files.Status() {
			list = append(list, d.mapping(st))
		}
	}
	return list
}

// Import is one mapping. Its type is MappingImports.
func (d importsAPI) Import(name string) (any, error) { return d.find(name) }

// LastMessage is what the service said about a mapping's import that went wrong.
type LastMessage struct {
	Mapping string                  `json:"mapping"`
	Said    *batcher.ServiceMessage `json:"said,omitempty"` // nil: nothing, as far as this process heard
}

// Reason tells what the service said; where a former owner of the table heard it,
// the service is asked again. Its type is Said.
func (d importsAPI) Reason(ctx context.Context, name string) (any, error) {
	if _, err := d.find(name); err != nil {
		return nil, err
	}
	told := LastMessage{Mapping: name}
	said, ok := d.sink.files.LastServiceMessage(name)
	if !ok {
		return told, nil
	}
	if said.Words == "" {
		results, err := request(&d.sink.service, func() (service.Results, error) { return d.sink.client.Results(ctx, said.Execution) })
		if err != nil {
			return nil, fmt.Errorf("mapping %s: the service said it to another process, and cannot be asked again: %w", name, err)
		}
		said.Words = results.Error
	}
	told.Said = &said
	return told, nil
}

// Release lets a halted mapping go on: its file, and its records that wait because
// nearly all were refused alike, in each lane. Its type is Released.
func (d importsAPI) Release(name string) (any, error) {
	released := Released{Mapping: name}
	for _, l := range d.sink.lanes {
		if g := l.floods.gateNamed(name); g != nil && g.release() {
			released.Lanes = append(released.Lanes, l.which.String())
		}
	}
	m, err := d.find(name)
	switch {
	case err == nil && m.Halted != "" && m.Import != nil && d.sink.files.Release(name) == nil:
		released.File, released.Loaded, released.SlotsLeft = m.Import.File, m.Import.Loaded, m.SlotsLeft
	case released.Lanes != nil:
	case err != nil:
		if refusal, ok := errors.AsType[*admin.Refusal](err); ok {
			refusal.Message += "; nor is it halted in this process: each member of the group releases its own"
		}
		return nil, err
	default: // or somebody else was faster
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: notHalted(m)}
	}
	return released, nil
}

// TakeSlot counts an import by hand. Its type is MappingImports. The slot is in the
// ledger with the next commit; until then a crash of this process forgets it.
func (d importsAPI) TakeSlot(name string) (any, error) {
	m, err := d.find(name)
	switch {
	case err != nil:
		return nil, err
	case m.SlotsLeft == nil:
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: fmt.Sprintf("mapping %s: this process does not have its table; ask the member that does", name)}
	case *m.SlotsLeft == 0:
		return nil, &admin.Refusal{Status: http.StatusConflict, Message: fmt.Sprintf("mapping %s: %v, all %d were used", name, ErrNoSlot, m.SlotsPerDay)}
	}
	d.sink.pacing.took(name)
	return d.find(name)
}

func notHalted(m MappingImports) string {
	const message = "mapping %s: nothing to release, no import of it is halted"
	if !m.Owned {
		return fmt.Sprintf(message+" here; this process does not have its table, ask the member that does", m.Mapping)
	}
	return fmt.Sprintf(message+"; if its partitions wait all the same, /status says what for", m.Mapping)
}

// find is the mapping, or a refusal that says what there is instead.
func (d importsAPI) find(name string) (MappingImports, error) {
	if d.sink.files == nil {
		return MappingImports{}, unknown("mapping %s: not here, this process does not run the batch lane", name)
	}
	all := d.sink.files.Status()
	names := make([]string, len(all))
	for i, st := range all {
		if st.Mapping == name {
			return d.mapping(st), nil
		}
		names[i] = st.Mapping
	}
	has := "the batch lane has " + strings.Join(names, ", ")
	for _, m := range d.sink.router.Mappings() {
		if m.Name == name {
			return MappingImports{}, unknown("mapping %s: has no imports, all of its routes lead to the immediate lane; %s", name, has)
		}
	}
	return MappingImports{}, unknown("mapping %s: is not in the configuration; %s", name, has)
}

func unknown(format string, args ...any) error {
	return &admin.Refusal{Status: http.StatusNotFound, Message: fmt.Sprintf(format, args...)}
}

func (d importsAPI) mapping(st batcher.MappingStatus) MappingImports {
	slots := d.sink.pacing.tables[st.Mapping]
	m := MappingImports{
		Mapping: st.Mapping, Table: slots.label, Bundle: st.Bundle, SlotsPerDay: slots.PerDay,
		Import: st.Import, Halted: st.Halted, Kept: slices.Clone(st.Kept),
	}
	var left int
	if left, m.Owned = d.sink.pacing.remaining(st.Mapping); m.Owned {
		m.SlotsLeft = &left
	}
	if !st.Opened.IsZero() {
		m.Open = &OpenFile{Rows: st.Rows, Bytes: st.Bytes, Since: st.Opened}
	}
	return m
}
