package sandbox

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
)

// loading is one file on its way into one table.
type loading struct {
	Load
	file       csvfile.File
	table      *table
	header     []string
	columns    []column // by position in the file
	now        time.Time
	keys       bool // note the keys of applied rows
	loaded     Loaded
	reasons    string // Shapes.Reasons
	rejections []Rejection

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
func (s *Sandbox) load(e *execution) (loaded []Loaded, outputs []csvfile.File, err error) {
	if err := s.imports.fails(e.etl); err != nil {
		return nil, nil, err
	}
	var files []csvfile.File
	if e.pushed {
		if files, _, err = csvfile.Unpack(e.path, e.state.File); err == nil {
			files, err = assign(e.etl.Loads, files)
		}
	} else {
		var r *retrieval
		if r, files, err = s.fetch(e); r != nil {
			defer func() { err = errors.Join(err, r.end(err == nil && e.etl.Fetch.Delete)) }()
			s.imports.mu.Lock()
			e.state.File, e.state.Bytes = strings.Join(r.names, ","), r.bytes
			s.imports.mu.Unlock()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return s.loadFiles(e, files)
}

// loadFiles loads a file for each load, in two passes over each: a global error
// of any of them must leave all tables as they were, and rows are not kept in
// memory meanwhile.
func (s *Sandbox) loadFiles(e *execution, files []csvfile.File) ([]Loaded, []csvfile.File, error) {
	s.imports.mu.Lock()
	refuses := slices.Clone(s.imports.refused)
	s.imports.mu.Unlock()
	loadings := make([]*loading, len(files))
	for i, l := range e.etl.Loads {
		loadings[i] = &loading{
			Load: l, file: files[i], table: s.tables[l.Table], now: s.conf.Now(), keys: s.log.limit > 0,
			reasons: s.conf.Shapes.Reasons, rejections: refuses,
		}
		if err := loadings[i].check(); err != nil {
			return nil, nil, fmt.Errorf("invalid file: %w", err)
		}
	}
	var loaded []Loaded
	var outputs []csvfile.File
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
	f, err := l.file.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := l.CSV.NewReader(f)
	if err != nil {
		return err
	}
	for read := 0; ; read++ {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) && read > 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return errors.New("there is no header line")
		}
		if err != nil {
			return err
		}
		if err := record(cells, r.Line()); err != nil {
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
	l.loaded = Loaded{Table: l.Table, Mode: l.Mode, File: l.file.Name}
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
		err = rejects(l.rejections, l.Table, values)
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
		have, listed := old[c.name].([]any)
		if more, ok := v.([]any); ok && listed && c.MergeValuesWhenMultivalued {
			all := slices.Clone(have)
			for _, v := range more {
				if !slices.Contains(all, v) { // elements are scalars
					all = append(all, v)
				}
			}
			v = all
		}
		next[c.name] = v
	}
	return next
}

// outputFile is an output file being written: the columns of the input with
// some before and some behind. It is created with its first row; a nil one
// drops rows.
type outputFile struct {
	kind   string // part of its name
	path   string
	before []string // headers of added columns
	header []string // of the input
	behind []string // headers of added columns
	csv    csvfile.Format

	file *os.File
	buf  *bufio.Writer
	rows *csvfile.Writer
}

// openOutputs prepares the files that the definition asks for.
func (l *loading) openOutputs(base string) {
	if l.GenerateErrorFiles {
		l.rejected = &outputFile{kind: "error", path: base + "-errors.csv", header: l.header, csv: l.CSV}
		switch l.reasons {
		case "first":
			l.rejected.before = []string{"lineNumber", "reason"}
		case "codes":
			l.rejected.behind = []string{"ERROR_CODE", "ERROR_MESSAGE"}
		default:
			l.rejected.behind = []string{"error"}
		}
	}
	if l.GenerateResultFiles {
		l.accepted = &outputFile{
			kind: "result", path: base + "-results.csv", header: l.header, behind: []string{"result"}, csv: l.CSV,
		}
	}
}

// reject writes a row with what is wrong with it.
func (l *loading) reject(cells []string, line int, why error) error {
	switch l.reasons {
	case "first":
		return l.rejected.write([]string{strconv.Itoa(line), why.Error()}, cells, nil)
	case "codes":
		code := "ERROR"
		if r, is := errors.AsType[*refusal](why); is {
			code = r.code
		}
		return l.rejected.write(nil, cells, []string{code, why.Error()})
	}
	return l.rejected.write(nil, cells, []string{why.Error()})
}

// closeOutputs completes them and lists those that have rows.
func (l *loading) closeOutputs() ([]csvfile.File, error) {
	var list []csvfile.File
	var errs []error
	stem := path.Base(strings.ReplaceAll(l.file.Name, `\`, "/")) // a ZIP names its files at will
	stem = strings.TrimSuffix(stem, path.Ext(stem))
	for _, f := range []*outputFile{l.rejected, l.accepted} {
		if f == nil || f.file == nil {
			continue
		}
		errs = append(errs, f.buf.Flush(), f.file.Close())
		list = append(list, csvfile.File{Name: stem + "-" + f.kind + ".csv", Open: func() (io.ReadCloser, error) { return os.Open(f.path) }})
	}
	return list, errors.Join(errs...)
}

func (o *outputFile) write(before, cells, behind []string) error {
	if o == nil {
		return nil
	}
	if o.file == nil {
		var err error
		if o.file, err = os.Create(o.path); err != nil {
			return err
		}
		o.buf = bufio.NewWriter(o.file)
		if o.rows, err = o.csv.NewWriter(o.buf); err == nil {
			err = o.rows.Write(o.before, o.header, o.behind)
		}
		if err != nil {
			return err
		}
	}
	return o.rows.Write(before, cells, behind)
}

// read turns a cell into a value of the column's field.
func (c column) read(cell string) (any, error) {
	if c.layout != "" && cell != "" {
		at, err := time.Parse(c.layout, cell)
		if err != nil {
			return nil, violation("NOT_IN_FORMAT", "not in the date format of the transformation")
		}
		switch {
		case c.rule.Type != Timestamp:
			cell = at.Format(time.DateOnly)
		case strings.Contains(c.layout, "07"):
			cell = at.Format("2006-01-02T15:04:05Z07:00")
		default:
			cell = at.Format("2006-01-02T15:04:05")
		}
	}
	return c.rule.fromCell(cell)
}

// errDateFormat says what a format may consist of.
var errDateFormat = errors.New("DATE_FORMAT: yyyy, yy, MM, M, dd, d, HH, H, hh, a, mm, ss, SSS, X, XX, XXX, Z and quoted text are understood")

// datePieces are what a format is made of, the longest first, and what Go
// writes for them.
var datePieces = []struct{ piece, layout string }{
	{"yyyy", "2006"},
	{"yy", "06"},
	{"MM", "01"},
	{"M", "1"},
	{"dd", "02"},
	{"d", "2"},
	{"HH", "15"},
	{"H", "15"},
	{"hh", "03"},
	{"a", "PM"},
	{"mm", "04"},
	{"ss", "05"},
	{".SSS", ".000"},
	{",SSS", ",000"},
	{"XXX", "Z07:00"},
	{"XX", "Z0700"},
	{"X", "Z07"},
	{"Z", "-0700"},
}

// dateLayout turns a format such as dd/MM/yyyy HH:mm:ss into Go's. Which
// letters a format has is not shown; these are the usual ones.
func dateLayout(format string) (string, error) {
	var layout strings.Builder
next:
	for rest := format; rest != ""; {
		for _, p := range datePieces {
			if after, ok := strings.CutPrefix(rest, p.piece); ok {
				layout.WriteString(p.layout)
				rest = after
				continue next
			}
		}
		text, after := rest[:1], rest[1:]
		if text == "'" {
			var closed bool
			if text, after, closed = strings.Cut(after, "'"); !closed {
				return "", errDateFormat
			}
		} else if isLetter(text[0]) {
			return "", errDateFormat
		}
		if strings.ContainsAny(text, "0123456789_") || strings.Contains(text, "PM") {
			return "", errDateFormat // Go would take it for a part of the date
		}
		layout.WriteString(text)
		rest = after
	}
	return layout.String(), nil
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// Rejection puts rows of imports in error that break no rule: the service may
// have rules that no client knows.
type Rejection struct {
	Table  string `json:"table,omitempty"`  // "": every table
	Column string `json:"column"`           // field whose value is looked at
	Match  string `json:"match"`            // regular expression that its text has to match
	Code   string `json:"code,omitempty"`   // where the error file has one; "": REFUSED
	Reason string `json:"reason,omitempty"` // "": "refused by a rule of the table"

	pattern *regexp.Regexp
}

// RejectRows adds rejections; the first that matches a row gives its reason.
// They hold for executions that end from now on.
func (s *Sandbox) RejectRows(list ...Rejection) error {
	list = slices.Clone(list)
	for i, r := range list {
		pattern, err := regexp.Compile(r.Match)
		if err != nil {
			return fmt.Errorf("match: %w", err)
		}
		if r.Column == "" {
			return errors.New("column: the name of a field is needed")
		}
		list[i].pattern = pattern
		list[i].Code = cmp.Or(r.Code, "REFUSED")
		list[i].Reason = cmp.Or(r.Reason, "refused by a rule of the table")
	}
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.refused = append(s.imports.refused, list...)
	return nil
}

// clearRejections ends all rejections.
func (s *Sandbox) clearRejections() {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	s.imports.refused = nil
}

// rejects reports why a row of a table is refused, nil when it is not.
func rejects(list []Rejection, table string, values map[string]any) error {
	for _, r := range list {
		v, has := values[r.Column]
		if has && (r.Table == "" || r.Table == table) && r.pattern.MatchString(textOf(v)) {
			return violation(r.Code, r.Reason)
		}
	}
	return nil
}
