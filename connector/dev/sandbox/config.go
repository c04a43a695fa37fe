package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Config describes the service to be played. The zero value of every field but
// Entity and APIKeys is usable.
type Config struct {
	Entity        string           // owner scope of the tables, part of every path
	APIKeys       []string         // keys that operation 14 accepts
	Rights        map[string][]int // operations that an API key has the right to; a key without an entry has all
	TokenLifetime time.Duration    // 0: the 15 minutes of the document
	Tables        []Table          // the tables that exist
	ETLs          []ETL            // triggered ETLs that exist before operation 9 adds more
	Processing    time.Duration    // how long an execution stays IN_PROGRESS
	SlotsPerDay   int              // imports per table and calendar day; 0: 12
	Location      *time.Location   // calendar of the slots and zone of answered timestamps; nil: UTC

	Now       func() time.Time // the service's clock; nil: time.Now
	Log       *slog.Logger     // gets the e-mail reports, a line for each recipient; nil: nobody
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
	Table      string     // profile table; "": none
	Attribute  string     // unique-key attribute of the profile table
	Property   string     // of the custom table, holds the same value
	Capability Capability // of the custom table
	Cascade    bool       // deleting a profile deletes its records; wants one of the capabilities
}

// Capability is what a custom table is for.
type Capability string

// The capabilities whose tables may be linked with a cascade.
const (
	Interaction Capability = "Interaction"
	LinkedData  Capability = "Linked Data"
)

// cascades reports whether deleting a profile deletes linked records.
func (l Link) cascades() bool {
	return l.Table != "" && l.Cascade && (l.Capability == Interaction || l.Capability == LinkedData)
}

// validate checks a link against the tables that exist.
func (l Link) validate(tables map[string]Table, name string) error {
	switch to, ok := tables[name]; {
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

// Load says how one file goes into one table.
type Load struct {
	Table   string
	Mode    Mode
	CSV     CSVFormat
	Columns []Column // attribute mapping; none: every header is the field of its name
	Flags            // of every column where Columns is empty

	// FileNamePattern names the file in a ZIP of several, and at a remote
	// location; $YYYYMMDD stands for eight digits, * for anything. A file that is
	// fetched may be compressed, and then has a name of its own.
	FileNamePattern           string
	Compression               Compression
	CompressedFileNamePattern string

	GenerateErrorFiles  bool // rows in error can be had from operation 12
	GenerateResultFiles bool // accepted rows can be had from operation 12
}

// Column maps one header of the file to a field of the table.
type Column struct {
	Header     string
	Attribute  string
	DateFormat string // DATE_FORMAT transformation, such as dd/MM/yyyy; "": none
	Flags
}

// Flags are the four booleans of an attribute mapping.
type Flags struct {
	IgnoreEmptyValues          bool // an empty cell leaves the field alone; else it clears it
	IgnoreInvalidValues        bool // an invalid cell leaves the field alone; else the row is in error
	IgnoreValuesWhenKnown      bool // a field that has a value keeps it
	MergeValuesWhenMultivalued bool // a list is added to the list that is there
}

// CSVFormat is how a file is written. Its zero value is UTF-8 with commas and
// double quotes.
type CSVFormat struct {
	Encoding  string // an IANA name such as ISO-8859-1
	Separator string // one ASCII character
	Enclosing string // one ASCII character
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

// withDefaults fills in what the zero values stand for.
func (c Config) withDefaults() Config {
	if c.TokenLifetime == 0 {
		c.TokenLifetime = 15 * time.Minute
	}
	if c.SlotsPerDay == 0 {
		c.SlotsPerDay = 12
	}
	if c.Location == nil {
		c.Location = time.UTC
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Shapes = c.Shapes.withDefaults()
	c.Tables = slices.Clone(c.Tables)
	for i := range c.Tables {
		if c.Tables[i].SlotsPerDay == 0 {
			c.Tables[i].SlotsPerDay = c.SlotsPerDay
		}
		if c.Tables[i].Custom {
			c.Tables[i].Keys = []string{businessKey}
		}
	}
	return c
}

// Validate reports everything in c that cannot work, each with its place.
func (c Config) Validate() error {
	var errs []error
	if c.Entity == "" || strings.Contains(c.Entity, "/") {
		errs = append(errs, fmt.Errorf("entity %q: one path segment is needed", c.Entity))
	}
	if len(c.APIKeys) == 0 {
		errs = append(errs, errors.New("apiKeys: at least one is needed"))
	}
	tables := map[string]Table{}
	for _, t := range c.Tables {
		if t.Name == "" {
			errs = append(errs, errors.New("table without a name"))
		}
		if _, twice := tables[c.tableName(t)]; twice {
			errs = append(errs, fmt.Errorf("table %s: defined twice", t.Name))
		}
		if !t.Custom && len(t.Keys) == 0 {
			errs = append(errs, fmt.Errorf("table %s: a profile table needs a unique-key attribute", t.Name))
		}
		tables[c.tableName(t)] = t
	}
	for _, t := range c.Tables {
		if err := t.Link.validate(tables, c.ofKind(t.Link.Table, false)); err != nil {
			errs = append(errs, fmt.Errorf("table %s: %w", t.Name, err))
		}
	}
	for _, e := range c.ETLs {
		if err := e.validate(tables); err != nil {
			errs = append(errs, fmt.Errorf("etl %s: %w", e.ID, err))
		}
	}
	return errors.Join(errs...)
}

// validate checks a definition against the tables that exist.
func (e ETL) validate(tables map[string]Table) error {
	if len(e.Loads) == 0 {
		return errors.New("loads no file")
	}
	for i, l := range e.Loads {
		if _, ok := tables[l.Table]; !ok {
			return fmt.Errorf("load %d: no table %q", i+1, l.Table)
		}
		switch l.Mode {
		case CreateOrUpdate, CreateUpdate, CreateOnly, UpdateOnly, DeleteRows:
		default:
			return fmt.Errorf("load %d: no import mode %q", i+1, l.Mode)
		}
		if _, err := l.CSV.compile(); err != nil {
			return fmt.Errorf("load %d: %w", i+1, err)
		}
		if (len(e.Loads) > 1 || e.Fetch.Remote != "") && l.FileNamePattern == "" {
			return fmt.Errorf("load %d: one of several files, or one to fetch, needs a fileNamePattern", i+1)
		}
		if !l.Compression.valid() {
			return fmt.Errorf("load %d: no compressionType %q", i+1, l.Compression)
		}
		for _, c := range l.Columns {
			if _, err := dateLayout(c.DateFormat); err != nil {
				return fmt.Errorf("load %d: header %q: %w", i+1, c.Header, err)
			}
		}
	}
	return nil
}
