package service

import "encoding/json"

// Mode is an import mode: what becomes of a row, depending on whether its key is
// in the table.
type Mode string

// The import modes. The interface spells the first one in two ways, in its list
// of modes and in its samples; both are taken and sent as they were given, so
// that the configuration follows what the service in question understands.
const (
	ModeCreateOrUpdate Mode = "CREATE_OR_UPDATE"
	ModeCreateUpdate   Mode = "CREATE_UPDATE"
	ModeCreateOnly     Mode = "CREATE_ONLY"
	ModeUpdateOnly     Mode = "UPDATE_ONLY"
	ModeDelete         Mode = "DELETE"
)

// Compression is how a file is packed.
type Compression string

// The compressions of the interface.
const (
	Gzip  Compression = "GZIP"
	Zip   Compression = "ZIP"
	Plain Compression = "NONE"
)

// DestinationType is the kind of a table.
type DestinationType string

// The kinds of table.
const (
	ProfileTable DestinationType = "PROFILE_TABLE"
	CustomTable  DestinationType = "CUSTOM_TABLE"
)

// CSVFormat is how a file is written.
type CSVFormat struct {
	Encoding  string `json:"encoding,omitempty"`
	Separator string `json:"separator"`
	Enclosing string `json:"enclosing,omitempty"`
}

// Transformation rewrites the values of a column while it is read. The
// interface shows one kind, DATE_FORMAT.
type Transformation struct {
	Header     string // of the file
	DateFormat string // how the file writes the dates, such as dd/MM/yyyy
}

// Attribute maps a header of the file to a field of the table. Its flags are
// always sent: what the service takes an absent one for is not shown.
type Attribute struct {
	Header string `json:"header"`
	Name   string `json:"attributeName"` // technical name, case sensitive

	IgnoreEmptyValues            bool `json:"ignoreEmptyValues"`   // an empty cell leaves the field alone
	IgnoreInvalidValues          bool `json:"ignoreInvalidValues"` // an invalid cell leaves the field alone
	IgnoreValuesWhenAlreadyKnown bool `json:"ignoreValuesWhenAlreadyKnown"`
	MergeValuesWhenMultivalued   bool `json:"mergeValuesWhenMultivalued"`
}

// Destination is the table that a file is loaded into.
type Destination struct {
	Type       DestinationType `json:"type"`
	ID         string          `json:"id"`                // the table's name
	Attributes []Attribute     `json:"attributesMapping"` // one for each header
}

// Parameters say how a file is loaded and what is told about it afterwards
// (operation 12).
type Parameters struct {
	Mode                Mode `json:"mode"`
	GenerateResultFiles bool `json:"generateResultFiles"`
	GenerateErrorFiles  bool `json:"generateErrorFiles"`
}

// Load is one file on its way into one table: what triggered and one-shot
// definitions have in common.
type Load struct {
	CSV             CSVFormat
	Transformations []Transformation
	Destination     Destination
	Parameters      Parameters
}

// OutputLocation is where the service drops result and error files, besides
// offering them by operation 12. Either a remote location or the transfer box
// of an entity.
type OutputLocation struct {
	RemoteLocationID string // type REMOTE
	Entity           string // type TRANSFERBOX
}

// TriggeredETL is a definition that the service stores (operation 9) and that is
// triggered as often as there are slots for it (operation 10).
type TriggeredETL struct {
	Name             string
	Description      string
	Paused           bool
	ReportRecipients []string // e-mail addresses

	// RemoteLocationID is where the files are fetched if an execution is
	// triggered without one. The interface says that this can be, not where the
	// definition names the place: that of a one-shot definition is taken.
	RemoteLocationID string

	Files  []ETLFile // loaded in this order
	Output *OutputLocation
}

// ETLFile is one file of a triggered ETL. Names are patterns in which
// $YYYYMMDD stands for a date; they matter only to an ETL of several files,
// which come in one ZIP, and to files that are fetched.
type ETLFile struct {
	Code                  string // ties the parts of the definition together; any text
	NamePattern           string
	Compression           Compression // "" leaves it out
	CompressedNamePattern string
	Load
}

// OneShotETL is a definition that travels with its file (operation 8).
type OneShotETL struct {
	// Remote is the file to fetch (OneShotRemote); nil where the file is sent
	// along (OneShot).
	Remote *RemoteFile

	Load
	ReportRecipients []string // e-mail addresses
	Output           *OutputLocation
}

// RemoteFile is a file at a remote location (FTPS).
type RemoteFile struct {
	LocationID            string
	NamePattern           string
	Compression           Compression // "" leaves it out
	CompressedNamePattern string
	DeleteOnSuccess       bool // the service removes it once it is loaded
}

// MarshalJSON writes the body of operation 9.
func (e TriggeredETL) MarshalJSON() ([]byte, error) { return json.Marshal(e.wire()) }

// MarshalJSON writes the body of operation 8: with Remote that of form A, else
// the part oneshotEtl of form B.
func (e OneShotETL) MarshalJSON() ([]byte, error) { return json.Marshal(e.wire()) }
