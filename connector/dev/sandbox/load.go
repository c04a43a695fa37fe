package sandbox

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

// loading is one file on its way into one table.
type loading struct {
	Load
	file    file
	table   *table
	dialect dialect
	header  []string
	columns []column // by position in the file
	now     time.Time
	keys    bool // note the keys of applied rows
	loaded  Loaded
	reasons ReasonShape
	refuses []Rejection

	rejected *outputFile
	accepted *outputFile
}

// column is a header mapped to a field.
type column struct {
	name   string // of the field, as a column
	rule   rule
	layout string // of the DATE_FORMAT transformation; "": none
	Flags
}

// load applies an execution's files, pushed or fetched.
func (s *Sandbox) load(e *execution) (loaded []Loaded, outputs []output, err error) {
	if reason := s.imports.breaks(e.etl); reason != "" {
		return nil, nil, errors.New(reason)
	}
	if e.pushed {
		files, _, done, err := unpack(e.path, e.state.File)
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = done() }() // it was only read
		if files, err = assign(e.etl.Loads, files); err != nil {
			return nil, nil, err
		}
		return s.loadFiles(e, files)
	}
	r, files, err := s.fetch(e)
	if r != nil {
		defer func() { err = errors.Join(err, r.end(err == nil && e.etl.Fetch.Delete)) }()
		s.imports.mu.Lock()
		e.state.File, e.state.Bytes = r.name(), r.bytes
		s.imports.mu.Unlock()
	}
	if err != nil {
		return nil, nil, err
	}
	return s.loadFiles(e, files)
}

// loadFiles loads a file for each load, in two passes over each: a global error
// of any of them must leave all tables as they were, and rows are not kept in
// memory meanwhile.
func (s *Sandbox) loadFiles(e *execution, files []file) ([]Loaded, []output, error) {
	loadings := make([]*loading, len(files))
	for i, l := range e.etl.Loads {
		loadings[i] = &loading{
			Load: l, file: files[i], table: s.tables[l.Table], now: s.conf.Now(), keys: s.log.limit > 0,
			reasons: s.conf.Shapes.Reasons, refuses: s.imports.rejections(l.Table),
		}
		if err := loadings[i].check(); err != nil {
			return nil, nil, fmt.Errorf("invalid file: %w", err)
		}
	}
	var loaded []Loaded
	var outputs []output
	for i, l := range loadings {
		l.openOutputs(fmt.Sprintf("%s-%d", e.path, i))
		err := l.apply(func() int64 { return s.log.seq.Add(1) })
		written, closeErr := l.closeOutputs()
		loaded, outputs = append(loaded, l.loaded), append(outputs, written...)
		if err := errors.Join(err, closeErr); err != nil {
			return loaded, outputs, err
		}
	}
	return loaded, outputs, nil
}

// check is the first pass: it finds the errors that end the whole execution.
func (l *loading) check() error {
	var err error
	if l.dialect, err = l.CSV.compile(); err != nil {
		return err
	}
	return l.each(func(cells []string, line int) error {
		if l.header == nil {
			l.header = slices.Clone(cells)
			return l.mapHeader()
		}
		if len(cells) != len(l.header) {
			return fmt.Errorf("line %d: %d columns instead of %d", line, len(cells), len(l.header))
		}
		if !utf8.ValidString(cells[0]) || slices.ContainsFunc(cells[1:], func(c string) bool { return !utf8.ValidString(c) }) {
			return fmt.Errorf("line %d: %w in the encoding of the definition", line, errNotUTF8)
		}
		return nil
	})
}

// each reads the file once from its start.
func (l *loading) each(record func(cells []string, line int) error) (err error) {
	f, err := l.file.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := newCSVReader(f, l.dialect)
	for read := 0; ; read++ {
		cells, err := r.read()
		if errors.Is(err, io.EOF) && read > 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return errors.New("there is no header line")
		}
		if err != nil {
			return err
		}
		if err := record(cells, r.line); err != nil {
			return err
		}
	}
}

// mapHeader maps each header through the definition to a field of the table.
func (l *loading) mapHeader() error {
	seen := map[string]bool{}
	for _, header := range l.header {
		if seen[header] {
			return fmt.Errorf("duplicate header %q", header)
		}
		seen[header] = true
		c := Column{Header: header, Attribute: header, Flags: l.Flags}
		if len(l.Columns) > 0 {
			i := slices.IndexFunc(l.Columns, func(c Column) bool { return c.Header == header })
			if i < 0 {
				return fmt.Errorf("header %q is not in the attribute mapping", header)
			}
			c = l.Columns[i]
		}
		r, ok := l.table.rule(c.Attribute)
		if !ok {
			return fmt.Errorf("header %q: the table has no field %q", header, c.Attribute)
		}
		if l.table.technical(c.Attribute) && l.Mode != CreateOnly {
			return fmt.Errorf("header %q: a technical attribute is taken from CREATE_ONLY imports alone", header)
		}
		layout, err := dateLayout(c.DateFormat)
		if err != nil {
			return err
		}
		l.columns = append(l.columns, column{c.Attribute, r, layout, c.Flags})
	}
	return nil
}

// apply is the second pass. The table is locked throughout, so that calls see
// all of the file or nothing.
func (l *loading) apply(seq func() int64) error {
	l.loaded = Loaded{Table: l.Table, Mode: l.Mode, File: l.file.name}
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	l.loaded.Seq = seq()
	header := true
	return l.each(func(cells []string, line int) error {
		if header {
			header = false
			return nil
		}
		l.loaded.Results.Read++
		return l.row(cells, line)
	})
}

// row applies one row, or counts and reports it as an error.
func (l *loading) row(cells []string, line int) error {
	values, err := l.values(cells)
	if err == nil {
		err = rejects(l.refuses, values)
	}
	outcome := ""
	if err == nil {
		outcome, err = l.write(values)
	}
	if err != nil {
		l.loaded.Results.InError++
		return l.reject(cells, line, err)
	}
	if l.keys {
		l.loaded.Keys = append(l.loaded.Keys, l.table.keyOf(values))
	}
	return l.accepted.write(nil, cells, []string{outcome})
}

// values reads the cells. A DELETE looks at nothing but the keys.
func (l *loading) values(cells []string) (map[string]any, error) {
	values := make(map[string]any, len(cells))
	for i, c := range l.columns {
		if l.Mode == DeleteRows && !slices.Contains(l.table.conf.Keys, c.name) {
			continue
		}
		if cells[i] == "" && c.IgnoreEmptyValues {
			continue
		}
		v, err := c.read(cells[i])
		if err != nil && c.IgnoreInvalidValues {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		values[c.name] = v
	}
	return values, nil
}

// write applies values by the mode and says what was done.
func (l *loading) write(values map[string]any) (string, error) {
	t := l.table
	found, err := t.match(values)
	if err != nil {
		return "", err
	}
	switch {
	case l.Mode == DeleteRows && found == nil:
		return "NOT_FOUND", nil
	case l.Mode == DeleteRows:
		t.remove(found)
		l.loaded.Results.Deleted++
		return "DELETED", nil
	case found == nil && l.Mode == UpdateOnly && !t.conf.Discard:
		return "", refuse(http.StatusNotFound, "no row has this key").as("NOT_THERE")
	case found == nil:
		t.insert(values, l.now)
		l.loaded.Results.Inserted++
		return "INSERTED", nil
	case l.Mode == CreateOnly:
		return "", refuse(http.StatusConflict, "a row with this key exists").as("ALREADY_THERE")
	}
	if err := t.replace(found, l.changed(found.Values, values), l.now); err != nil {
		return "", err
	}
	l.loaded.Results.Updated++
	return "UPDATED", nil
}

// changed is what a row holds after an update by these columns and their
// flags. Fields without a column stay.
func (l *loading) changed(old, values map[string]any) map[string]any {
	next := maps.Clone(old)
	for _, c := range l.columns {
		v, given := values[c.name]
		if !given || c.IgnoreValuesWhenKnown && old[c.name] != nil {
			continue
		}
		if have, ok := old[c.name].([]any); ok && c.MergeValuesWhenMultivalued {
			if more, ok := v.([]any); ok {
				v = union(have, more)
			}
		}
		next[c.name] = v
	}
	return next
}
