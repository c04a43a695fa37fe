package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
)

// Config describes the service to be played. The zero value of every field but
// Entity and APIKeys is usable.
type Config struct {
	Entity        string         // owner scope of the tables, part of every path
	APIKeys       []string       // keys that operation 14 accepts, with the right to all operations
	TokenLifetime time.Duration  // 0: the 15 minutes of the document
	Tables        []Table        // the tables that exist
	ETLs          []ETL          // triggered ETLs that exist before operation 9 adds more
	Processing    time.Duration  // how long an execution stays IN_PROGRESS
	SlotsPerDay   int            // imports per table and calendar day; 0: 12
	Location      *time.Location // calendar of the slots and zone of answered timestamps; nil: UTC

	Now       func() time.Time // the service's clock; nil: time.Now
	Log       *slog.Logger     // gets the e-mail reports, a line for each recipient; nil: they are dropped
	KeepCalls int              // how many of the last calls Calls returns; 0 keeps none and costs nothing
	Dir       string           // holds uploads and output files; "": a temporary folder that Close removes
	Folders   string           // root of file locations, see Sandbox.Folder; "": below Dir
	Shapes    Shapes           // answers that the document leaves open
}

// Table is a profile table or a custom table and the fields that it takes.
type Table struct {
	Name          string
	Custom        bool      // a custom table; else a profile table
	Keys          []string  // unique-key attributes of a profile table; a custom table has "businessKey"
	Open          bool      // takes fields that are not listed, unchecked
	Fields        []Field   // attributes or properties
	Subscriptions []string  // names, without "subscriptions#"
	Segments      []Segment // names, without "S_"
	SlotsPerDay   int       // 0: Config.SlotsPerDay
	Link          Link      // of a custom table to a profile table

	// Discard checks and counts writes but keeps no row, so that a measurement
	// pays for the service as little as possible. Every write counts as a new row.
	Discard bool
}

// Field is one attribute or property of a table.
type Field struct {
	Name      string // technical name, case sensitive
	Type      Type   // "": String
	MaxLength int    // of a String, in characters; 0: 255
	Multi     bool   // holds a list of values
	Format    Format // standardFormat decorator of a String; "": none
}

// Link ties the records of a custom table to profiles.
type Link struct {
	Table      string // profile table; "": none
	Attribute  string // unique-key attribute of the profile table
	Property   string // of the custom table, holds the same value
	Capability string // of the custom table
	Cascade    bool   // deleting a profile deletes its records; wants the capability Interaction or Linked Data
}

// cascades reports whether deleting a profile deletes linked records.
func (l Link) cascades() bool {
	return l.Table != "" && l.Cascade && (l.Capability == "Interaction" || l.Capability == "Linked Data")
}

// Segment is a segmentation: simple (true or false) without Values, exclusive
// (one of Values) with them.
type Segment struct {
	Name   string
	Values []string
}

// ETL is a stored definition that operation 10 triggers: one load for a single
// file, several for a ZIP whose files are told apart by name and loaded in the
// order given here.
type ETL struct {
	ID         string
	Loads      []Load
	Fetch      Fetch    // where operation 10 without a file gets it
	Output     Location // where output files are dropped beside being kept for operation 12
	Recipients []string // e-mail addresses of those who get a report
	Paused     bool     // operation 10 refuses
}

// Fetch is the remote location of input files.
type Fetch struct {
	Remote string // remoteLocationId; "": files are pushed
	Delete bool   // remove fetched files after success
}

// Location is a place for files beside the service: a remote location (FTPS)
// or the transfer box of an entity. Both are folders here.
type Location struct {
	Remote      string // remoteLocationId
	TransferBox string // entity
}

// Load says how one file goes into one table.
type Load struct {
	Table   string
	Mode    Mode
	CSV     csvfile.Format
	Columns []Column // attribute mapping; none: every header is the field of its name
	Flags            // of every column where Columns is empty

	// FileNamePattern names the file in a ZIP of several, and at a remote
	// location; $YYYYMMDD stands for eight digits, * for anything. A file that is
	// fetched may be compressed, and then has a name of its own.
	FileNamePattern           string
	Compression               csvfile.Compression // "": any
	CompressedFileNamePattern string

	GenerateErrorFiles  bool // rows in error can be had from operation 12
	GenerateResultFiles bool // accepted rows can be had from operation 12
}

// Column maps one header of the file to a field of the table, as an item of
// attributesMapping does.
type Column struct {
	Header     string `json:"header"`
	Attribute  string `json:"attributeName"`
	DateFormat string `json:"-"` // DATE_FORMAT transformation, such as dd/MM/yyyy; "": none
	Flags
}

// Flags are the four booleans of an attribute mapping.
type Flags struct {
	IgnoreEmptyValues          bool `json:"ignoreEmptyValues"`            // an empty cell leaves the field alone; else it clears it
	IgnoreInvalidValues        bool `json:"ignoreInvalidValues"`          // an invalid cell leaves the field alone; else the row is in error
	IgnoreValuesWhenKnown      bool `json:"ignoreValuesWhenAlreadyKnown"` // a field that has a value keeps it
	MergeValuesWhenMultivalued bool `json:"mergeValuesWhenMultivalued"`   // a list is added to the list that is there
}

// Mode is an import mode of the document.
type Mode string

// The import modes. The document spells the first one in two ways.
const (
	CreateOrUpdate Mode = "CREATE_OR_UPDATE"
	CreateUpdate   Mode = "CREATE_UPDATE"
	CreateOnly     Mode = "CREATE_ONLY"
	UpdateOnly     Mode = "UPDATE_ONLY"
	DeleteRows     Mode = "DELETE"
)

// Shapes chooses among the answers that the document leaves open. "" and 0 are the
// sandbox's own. A client that works with one of each kind only works by luck:
// tests run it against all.
type Shapes struct {
	// ID is the answer of operations 8, 9, 10 and 13. For the id 12:
	//
	//	""           {"id":"12"}
	//	number       {"id":12}
	//	bare-string  "12"
	//	bare-number  12
	//	location     no body, header Location: …/12
	//	none         no body and no header
	ID string

	// Updated is the answer of operation 5.
	//
	//	""      {"businessKey":"…"}, as operation 4
	//	record  the whole record, as operation 6
	//	empty   204 without a body
	Updated string

	// Errors is the body of a refusal.
	//
	//	""     {"status":400,"error":"…"}
	//	list   {"errors":[{"code":"…","message":"…"}]}
	//	text   the words alone, as a JSON text
	//	empty  no body
	Errors string

	// NoSlot is the refusal of an import beyond the day's limit.
	//
	//	""      429, a body that says so and Retry-After until the next day
	//	text    429 and a body that says so
	//	header  429 without a body, Retry-After until the next day
	//	403     403 and a body that says so
	NoSlot string

	// Initial is the first answer of operation 11 while an execution runs; "": IN_PROGRESS.
	Initial ExecutionStatus

	// Results is integrationResults.
	//
	//	""      {"linesRead":5,…}
	//	text    {"linesRead":"5",…}
	//	nested  {"counters":{"linesRead":5,…}}
	//	files   [{"fileName":"…","linesRead":5,…}], one for each file
	Results string

	// Counters are the names of the counters read, in error, inserted, updated, deleted.
	Counters [5]string

	// Failure is the error of an execution that FAILED.
	//
	//	""      "…"
	//	object  {"code":"…","message":"…"}
	//	list    [{"code":"…","message":"…"}]
	Failure string

	// Output packs a single output file for operation 12: "" as CSV, gzip or zip. Two
	// files always come as a ZIP.
	Output string

	// Reasons are the columns of an error file's reason, beside those of the input.
	//
	//	""     …,error
	//	codes  …,ERROR_CODE,ERROR_MESSAGE
	//	first  lineNumber,reason,…
	Reasons string

	// Webhook is the payload of a webhook's call.
	//
	//	""      {"eventType":"FINISHED","etlId":"…","executionId":"…","status":"FINISHED"}
	//	nested  {"event":{"on":…,"type":…},"execution":{"id":12,"etl":{"id":"…"}}}
	//	empty   no body
	Webhook string

	Status Statuses // of refusals
}

// Statuses are the statuses of refusals that the document does not list. One
// below 400 is answered without a body.
type Statuses struct {
	Invalid   int // a body or value that is not taken; 0: 400
	NoRight   int // the key lacks the route's access right; 0: 403
	Paused    int // operation 10 on a paused ETL; 0: 409
	NoProfile int // operation 2 on an id that does not exist; 0: 404
	NoRecord  int // operation 6 on a key that does not exist; 0: 404
	NoOutput  int // operation 12 where there is no output file; 0: 404
}

// withDefaults fills in what the zero values stand for.
func (c Config) withDefaults() Config {
	c.TokenLifetime = cmp.Or(c.TokenLifetime, 15*time.Minute)
	c.SlotsPerDay = cmp.Or(c.SlotsPerDay, 12)
	c.Location = cmp.Or(c.Location, time.UTC)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	for i, own := range [5]string{"linesRead", "linesInError", "inserted", "updated", "deleted"} {
		c.Shapes.Counters[i] = cmp.Or(c.Shapes.Counters[i], own)
	}
	c.Shapes.Initial = cmp.Or(c.Shapes.Initial, InProgress)
	status := &c.Shapes.Status
	status.Invalid = cmp.Or(status.Invalid, http.StatusBadRequest)
	status.NoRight = cmp.Or(status.NoRight, http.StatusForbidden)
	status.Paused = cmp.Or(status.Paused, http.StatusConflict)
	status.NoProfile = cmp.Or(status.NoProfile, http.StatusNotFound)
	status.NoRecord = cmp.Or(status.NoRecord, http.StatusNotFound)
	status.NoOutput = cmp.Or(status.NoOutput, http.StatusNotFound)
	c.Tables = slices.Clone(c.Tables)
	for i := range c.Tables {
		t := &c.Tables[i]
		t.SlotsPerDay = cmp.Or(t.SlotsPerDay, c.SlotsPerDay)
		if t.Custom {
			t.Keys = []string{businessKey}
		}
	}
	return c
}

// validate reports everything in c that cannot work, each with its place.
func (c Config) validate() error {
	var errs []error
	if c.Entity == "" || strings.Contains(c.Entity, "/") {
		errs = append(errs, fmt.Errorf("entity %q: one path segment is needed", c.Entity))
	}
	if len(c.APIKeys) == 0 {
		errs = append(errs, errors.New("apiKeys: at least one is needed"))
	}
	names := map[string]bool{}
	for _, t := range c.Tables {
		if t.Name == "" {
			errs = append(errs, errors.New("table without a name"))
		}
		if names[c.tableName(t)] {
			errs = append(errs, fmt.Errorf("table %s: defined twice", t.Name))
		}
		names[c.tableName(t)] = true
		if !t.Custom && len(t.Keys) == 0 {
			errs = append(errs, fmt.Errorf("table %s: a profile table needs a unique-key attribute", t.Name))
		}
		if err := t.Link.validate(c); err != nil {
			errs = append(errs, fmt.Errorf("table %s: %w", t.Name, err))
		}
	}
	for _, e := range c.ETLs {
		if err := e.validate(c); err != nil {
			errs = append(errs, fmt.Errorf("etl %s: %w", e.ID, err))
		}
	}
	return errors.Join(append(errs, c.Shapes.validate())...)
}

// find looks a table up by the name that it has among those of the configuration.
func (c Config) find(name string) (Table, bool) {
	i := slices.IndexFunc(c.Tables, func(t Table) bool { return c.tableName(t) == name })
	if i < 0 {
		return Table{}, false
	}
	return c.Tables[i], true
}

// validate checks a link against the tables that exist.
func (l Link) validate(c Config) error {
	switch to, ok := c.find(c.ofKind(l.Table, false)); {
	case l.Table == "":
		return nil
	case !ok || to.Custom:
		return fmt.Errorf("link: no profile table %q", l.Table)
	case !slices.Contains(to.Keys, l.Attribute):
		return fmt.Errorf("link: %q is not a unique key of table %s", l.Attribute, l.Table)
	case l.Property == "":
		return errors.New("link: a property is needed")
	case l.Cascade && !l.cascades():
		return errors.New("link: a cascade wants the capability Interaction or Linked Data")
	}
	return nil
}

// validate checks a definition against the tables that exist.
func (e ETL) validate(c Config) error {
	if len(e.Loads) == 0 {
		return errors.New("loads no file")
	}
	for i, l := range e.Loads {
		err := l.validate(c)
		if err == nil && (len(e.Loads) > 1 || e.Fetch.Remote != "") && l.FileNamePattern == "" {
			err = errors.New("one of several files, or one to fetch, needs a fileNamePattern")
		}
		if err != nil {
			return fmt.Errorf("load %d: %w", i+1, err)
		}
	}
	return nil
}

func (l Load) validate(c Config) error {
	if _, ok := c.find(l.Table); !ok {
		return fmt.Errorf("no table %q", l.Table)
	}
	if !slices.Contains([]Mode{CreateOrUpdate, CreateUpdate, CreateOnly, UpdateOnly, DeleteRows}, l.Mode) {
		return fmt.Errorf("no import mode %q", l.Mode)
	}
	if err := l.CSV.Validate(); err != nil {
		return err
	}
	if !slices.Contains([]csvfile.Compression{"", csvfile.Uncompressed, csvfile.Gzip, csvfile.Zip}, l.Compression) {
		return fmt.Errorf("no compressionType %q", l.Compression)
	}
	for _, column := range l.Columns {
		if _, err := dateLayout(column.DateFormat); err != nil {
			return fmt.Errorf("header %q: %w", column.Header, err)
		}
	}
	return nil
}

func (s Shapes) validate() error {
	for _, shape := range []struct{ name, is, of string }{
		{"id", s.ID, "number bare-string bare-number location none"},
		{"updated", s.Updated, "record empty"},
		{"errors", s.Errors, "list text empty"},
		{"noSlot", s.NoSlot, "text header 403"},
		{"results", s.Results, "text nested files"},
		{"failure", s.Failure, "object list"},
		{"output", s.Output, "gzip zip"},
		{"reasons", s.Reasons, "codes first"},
		{"webhook", s.Webhook, "nested empty"},
	} {
		if shape.is != "" && !slices.Contains(strings.Fields(shape.of), shape.is) {
			return fmt.Errorf("shapes: %s: one of %s is expected, not %q", shape.name, shape.of, shape.is)
		}
	}
	return nil
}
