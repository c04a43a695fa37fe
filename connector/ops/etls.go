package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// NewETL is an ETL that loads the rows of one op, or those of its bundle: its
// definition, and once it is created its id.
type NewETL struct {
	Mapping     string               `json:"mapping"`
	Op          string               `json:"op"`
	ID          string               `json:"id,omitempty"` // the service's; "" if its answer does not tell
	Fingerprint string               `json:"fingerprint"`  // of what the definition depends on
	Line        string               `json:"line"`         // for the mapping's imports
	Others      []ETLLine            `json:"others,omitempty"`
	Definition  service.TriggeredETL `json:"definition"`

	declared map[string]bool // mappings whose import says ignoresEmpty, which the definition follows
}

// ETLLine names an ETL at the imports of another mapping of the bundle.
type ETLLine struct {
	Mapping string `json:"mapping"`
	Line    string `json:"line"`
}

// ETLs are the definitions that load a mapping's files, or those of its bundle: of
// one op, or, where op is 0, of each op whose import has no ETL yet. The
// configuration is an unfinished one.
func ETLs(cfg *config.Config, mapping string, op schemas.Op) ([]NewETL, error) {
	m, err := compiled(cfg, mapping)
	if err != nil {
		return nil, err
	}
	if !m.Uses(schemas.Batch) {
		return nil, fmt.Errorf("mapping %s: no route leads to the batch lane, so it has no files to be loaded", mapping)
	}
	if op != 0 {
		if len(loading(m, op)) == 0 {
			return nil, fmt.Errorf("mapping %s: imports.%v is not configured; write %v: {mode: …} into its imports", mapping, op, op)
		}
		return []NewETL{ETLOf(m, op)}, nil
	}
	var etls []NewETL
	for _, op := range schemas.Ops {
		if slices.ContainsFunc(loading(m, op), func(m *router.Compiled) bool { return m.Import(op).ETL == config.NoETL }) {
			etls = append(etls, ETLOf(m, op))
		}
	}
	if len(etls) == 0 {
		return nil, fmt.Errorf("mapping %s: each of its imports names an ETL; say with --op for which one to create another", mapping)
	}
	return etls, nil
}

// Create creates the ETL (operation 9) and notes its id. The service has no
// operation to look for one or to remove it.
func (e *NewETL) Create(ctx context.Context, client *service.Client) error {
	id, err := client.CreateETL(ctx, e.Definition)
	if err != nil {
		return fmt.Errorf("mapping %s, %s: %w", e.Mapping, e.Op,
			service.IfUnknown(err, "the ETL may have been created all the same: look at the service before you create it again"))
	}
	e.ID = id
	e.name(cmp.Or(id, "the id that the service shows"))
	return nil
}

// ETLsText is what was created, and the lines to write into the configuration file.
func ETLsText(file string, etls []NewETL) string {
	var text words.Lines
	for _, e := range etls {
		if e.ID == "" {
			text.Add("created an ETL for %s of %s; the answer does not tell its id, the service's own pages do", e.Op, e.Mapping)
			continue
		}
		text.Add("created ETL %s for %s of %s", e.ID, e.Op, e.Mapping)
	}
	var mappings []string
	lines := map[string]string{}
	add := func(mapping, line string) {
		if lines[mapping] == "" {
			mappings = append(mappings, mapping)
		}
		lines[mapping] += "\n      " + line
	}
	for _, e := range etls {
		add(e.Mapping, e.Line)
		for _, other := range e.Others {
			add(other.Mapping, other.Line)
		}
	}
	for _, mapping := range mappings {
		text.Add("\nwrite into %s, at mapping %s:\n    imports:%s", file, mapping, lines[mapping])
	}
	return text.Text()
}

// loading are the mappings whose files of op one ETL loads: m, or those of its
// bundle that have such files, in the order in which they are loaded.
func loading(m *router.Compiled, op schemas.Op) []*router.Compiled {
	all := m.Bundle()
	if all == nil {
		all = []*router.Compiled{m}
	}
	return slices.DeleteFunc(all, func(m *router.Compiled) bool { return m.Import(op) == nil })
}

// ETLOf is the ETL that loads the rows of an operation.
func ETLOf(m *router.Compiled, op schemas.Op) NewETL {
	all := loading(m, op)
	e := NewETL{Mapping: all[0].Name, Op: op.String(), Fingerprint: all[0].ETLFingerprint(op), declared: map[string]bool{}}
	if slices.Contains(all, m) {
		e.Mapping = m.Name
	}
	for _, m := range all {
		e.Definition.Files = append(e.Definition.Files, etlFile(m, op))
		e.declared[m.Name] = m.Import(op).IgnoresEmpty
		if m.Name != e.Mapping {
			e.Others = append(e.Others, ETLLine{Mapping: m.Name})
		}
	}
	e.Definition.Name = "feedsink " + m.Name + " " + op.String()
	e.Definition.Description = fmt.Sprintf("Files of feedsink's mapping %s: %s of the table %s", m.Name, op, m.Table.Name)
	if bundle := m.Config.Bundle; bundle != "" {
		e.Definition.Name = "feedsink " + bundle + " " + op.String()
		e.Definition.Description = fmt.Sprintf("Files of feedsink's bundle %s: %s of %d tables", bundle, op, len(all))
	}
	e.name("ID")
	return e
}

// etlFile is what the definition says of one mapping's file.
func etlFile(m *router.Compiled, op schemas.Op) service.ETLFile {
	file := service.ETLFile{Code: m.Name, NamePattern: m.Name + "-$YYYYMMDD.csv", Load: fileLoad(m, op, m.FileColumns(op))}
	file.Compression = service.Compression(cmp.Or(strings.ToUpper(m.Config.Imports.CSV.Compression), "GZIP"))
	if m.Config.Bundle != "" {
		file.NamePattern, file.Compression = m.EntryName(), service.Zip
	}
	return file
}

// name writes the lines that name the ETL by an id.
func (e *NewETL) name(id string) {
	modes := map[string]service.Mode{}
	for _, f := range e.Definition.Files {
		modes[f.Code] = f.Parameters.Mode
	}
	line := func(mapping string) string {
		text := fmt.Sprintf("%s: {etl: %q, mode: %s, fingerprint: %q", e.Op, id, modes[mapping], e.Fingerprint)
		if e.declared[mapping] {
			text += ", ignoresEmpty: true"
		}
		return text + "}"
	}
	e.Line = line(e.Mapping)
	for i := range e.Others {
		e.Others[i].Line = line(e.Others[i].Mapping)
	}
}

// fileLoad is what triggered and one-shot definitions say of a mapping's file with
// these columns. Error files are what rejected rows are matched with.
func fileLoad(m *router.Compiled, op schemas.Op, columns []router.FileColumn) service.Load {
	csv := m.Config.Imports.CSV
	load := service.Load{
		CSV: service.CSVFormat{
			Separator: cmp.Or(csv.Separator, ","), Enclosing: cmp.Or(csv.Enclosing, `"`), Encoding: cmp.Or(csv.Encoding, "UTF-8"),
		},
		Destination: service.Destination{Type: service.ProfileTable, ID: m.Table.Name},
		Parameters:  service.Parameters{GenerateErrorFiles: true},
	}
	if m.Table.Custom {
		load.Destination.Type = service.CustomTable
	}
	if im := m.Import(op); im != nil {
		load.Parameters.Mode = service.Mode(im.Mode)
	}
	for _, c := range columns {
		load.Destination.Attributes = append(load.Destination.Attributes,
			service.Attribute{Header: c.Header, Name: c.Header, IgnoreEmptyValues: c.IgnoresEmpty})
	}
	return load
}

// first makes an error of the first problem, for configurations that were checked.
func first(r *router.Router, problems []problem.Problem) (*router.Router, error) {
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].Path, problems[0].Message)
	}
	return r, nil
}

// compiled is one mapping of a configuration that was checked.
func compiled(cfg *config.Config, name string) (*router.Compiled, error) {
	r, err := first(check.CompileUnfinished(cfg.Mappings))
	if err != nil {
		return nil, err
	}
	return mappingOf(r, name)
}

// ErrNoMapping says that the configuration has no mapping of that name.
var ErrNoMapping = errors.New("is not in the configuration")

func mappingOf(r *router.Router, name string) (*router.Compiled, error) {
	var names []string
	for _, m := range r.Mappings() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return nil, fmt.Errorf("mapping %s: %w, which has %s", name, ErrNoMapping, strings.Join(names, ", "))
}
