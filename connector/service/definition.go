package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
)

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
// triggered once for each slot (operation 10).
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

// problems collects what is wrong with a definition, each with the place that
// it has on the wire.
type problems []error

func (p *problems) add(place, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", place, fmt.Sprintf(format, args...)))
}

// need reports a text that is not there.
func (p *problems) need(place, text string) {
	if text == "" {
		p.add(place, "must not be empty")
	}
}

// unsendable is the error of a call that was not made, for its content. One
// line, as all errors of a Client.
func unsendable(op operation, err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	return &Error{op: op, kind: Rejected, text: text + "; nothing was sent", err: err}
}

// Validate reports everything in the definition that cannot work, at once. That
// the table has the fields is known to the service alone.
func (e TriggeredETL) Validate() error {
	var p problems
	p.need("name", e.Name)
	if len(e.Files) == 0 {
		p.add("fileTransfer.input.files", "must name at least one file")
	}
	codes := map[string]bool{}
	for i, f := range e.Files {
		place := fmt.Sprintf("fileTransfer.input.files[%d]", i)
		p.need(place+".fileCode", f.Code)
		if codes[f.Code] && f.Code != "" {
			p.add(place+".fileCode", "%q is another file's", f.Code)
		}
		codes[f.Code] = true
		if len(e.Files) > 1 || e.RemoteLocationID != "" {
			p.need(place+".fileNamePattern", f.NamePattern)
		}
		p.compression(place+".compressionType", f.Compression)
		f.check(&p, fmt.Sprintf("dataLoadings[%d]", i),
			fmt.Sprintf("inputFilesProperties[%d]", i), fmt.Sprintf("dataTransformations[%d]", i))
	}
	return p.ending(e.ReportRecipients, e.Output)
}

// Validate reports everything in the definition that cannot work, at once.
func (e OneShotETL) Validate() error {
	var p problems
	if r := e.Remote; r != nil {
		p.need("fileTransfer.input.location.remoteLocationId", r.LocationID)
		p.need("fileTransfer.input.file.fileNamePattern", r.NamePattern)
		p.compression("fileTransfer.input.file.compressionType", r.Compression)
	}
	e.check(&p, "dataLoading", "inputFileProperties", "dataTransformations[0]")
	return p.ending(e.ReportRecipients, e.Output)
}

// check looks at what a file's three places say of it.
func (l Load) check(p *problems, loading, properties, transforms string) {
	switch l.Destination.Type {
	case ProfileTable, CustomTable:
	default:
		p.add(loading+".destination.type", "must be %s or %s, is %q", ProfileTable, CustomTable, l.Destination.Type)
	}
	p.need(loading+".destination.id", l.Destination.ID)
	if len(l.Destination.Attributes) == 0 {
		p.add(loading+".destination.attributesMapping", "must map at least one header")
	}
	headers := map[string]bool{}
	for i, a := range l.Destination.Attributes {
		place := fmt.Sprintf("%s.destination.attributesMapping[%d]", loading, i)
		p.need(place+".header", a.Header)
		p.need(place+".attributeName", a.Name)
		if headers[a.Header] && a.Header != "" {
			p.add(place+".header", "%q is mapped already", a.Header)
		}
		headers[a.Header] = true
	}
	modes := []Mode{ModeCreateOrUpdate, ModeCreateUpdate, ModeCreateOnly, ModeUpdateOnly, ModeDelete}
	if !slices.Contains(modes, l.Parameters.Mode) {
		p.add(loading+".parameters.mode", "must be one of %v, is %q", modes, l.Parameters.Mode)
	}
	p.need(properties+".csvFormat.separator", l.CSV.Separator)
	for i, t := range l.Transformations {
		place := fmt.Sprintf("%s.transformations[%d]", transforms, i)
		if !headers[t.Header] {
			p.add(place+".header", "%q is not mapped", t.Header)
		}
		p.need(place+".transformation.format", t.DateFormat)
	}
}

func (p *problems) compression(place string, c Compression) {
	switch c {
	case "", Gzip, Zip, Plain:
	default:
		p.add(place, "must be %s, %s or %s, is %q", Gzip, Zip, Plain, c)
	}
}

// ending looks at the rest and joins all. It does not quote a recipient's address: it
// is a person's.
func (p *problems) ending(recipients []string, o *OutputLocation) error {
	for i, address := range recipients {
		if a, err := mail.ParseAddress(address); err != nil || a.Address != address {
			p.add(fmt.Sprintf("reportRecipients[%d]", i), "is not an e-mail address")
		}
	}
	if o != nil && (o.RemoteLocationID == "") == (o.Entity == "") {
		p.add("fileTransfer.output.location", "must name either a remote location or an entity")
	}
	return errors.Join(*p...)
}

// wireDefinition is the body of operations 8 and 9. It ties what belongs to one file
// together by its code and spreads it over four lists; here it is one ETLFile.
type wireDefinition struct {
	Type                string           `json:"type,omitempty"` // of a file that is sent along none, as the samples have it
	Name                string           `json:"name,omitempty"`
	Description         string           `json:"description,omitempty"`
	Triggering          *wireTriggering  `json:"triggering,omitempty"`
	ReportRecipients    []string         `json:"reportRecipients,omitempty"`
	FileTransfer        *wireTransfer    `json:"fileTransfer,omitempty"`
	FilesProperties     []wireProperties `json:"inputFilesProperties,omitempty"` // operation 9
	FileProperties      *wireProperties  `json:"inputFileProperties,omitempty"`  // operation 8
	DataTransformations []wireTransforms `json:"dataTransformations,omitempty"`
	DataLoadings        []wireLoading    `json:"dataLoadings,omitempty"` // operation 9
	DataLoading         *wireLoading     `json:"dataLoading,omitempty"`  // operation 8
}

type wireTriggering struct {
	Type   string `json:"type"`
	Paused bool   `json:"paused"`
}

type wireTransfer struct {
	Input struct {
		Files    []wireFile    `json:"files,omitempty"`
		File     *wireFile     `json:"file,omitempty"`
		Location *wireLocation `json:"location,omitempty"`
		Delete   *bool         `json:"deleteFilesOnSuccess,omitempty"`
	} `json:"input,omitzero"`
	Output struct {
		Location *wireLocation `json:"location"`
	} `json:"output,omitzero"`
}

type wireFile struct {
	Code                  string      `json:"fileCode,omitempty"`
	NamePattern           string      `json:"fileNamePattern,omitempty"`
	Compression           Compression `json:"compressionType,omitempty"`
	CompressedNamePattern string      `json:"compressedFileNamePattern,omitempty"`
}

type wireLocation struct {
	Type             string `json:"type"`
	RemoteLocationID string `json:"remoteLocationId,omitempty"`
	Entity           string `json:"entity,omitempty"`
}

type wireProperties struct {
	Code string    `json:"fileCode,omitempty"`
	CSV  CSVFormat `json:"csvFormat"`
}

type wireTransforms struct {
	Code            string          `json:"fileCode,omitempty"`
	Transformations []wireTransform `json:"transformations"`
}

type wireTransform struct {
	Header         string `json:"header"`
	Transformation struct {
		Type   string `json:"type"`
		Format string `json:"format"`
	} `json:"transformation"`
}

type wireLoading struct {
	Code        string      `json:"fileCode,omitempty"`
	Destination Destination `json:"destination"`
	Parameters  Parameters  `json:"parameters"`
}

func (e TriggeredETL) wire() wireDefinition {
	w := wireDefinition{
		Type: "TRIGGERED", Name: e.Name, Description: e.Description,
		Triggering:       &wireTriggering{Type: "API", Paused: e.Paused},
		ReportRecipients: e.ReportRecipients,
		FileTransfer:     &wireTransfer{},
	}
	w.FileTransfer.Input.Location = remoteLocation(e.RemoteLocationID)
	w.FileTransfer.Output.Location = e.Output.wire()
	for _, f := range e.Files {
		w.FileTransfer.Input.Files = append(w.FileTransfer.Input.Files,
			wireFile{f.Code, f.NamePattern, f.Compression, f.CompressedNamePattern})
		w.FilesProperties = append(w.FilesProperties, wireProperties{f.Code, f.CSV})
		w.DataTransformations = append(w.DataTransformations, f.transforms(f.Code)...)
		w.DataLoadings = append(w.DataLoadings, wireLoading{f.Code, f.Destination, f.Parameters})
	}
	return w
}

func (e OneShotETL) wire() wireDefinition {
	w := wireDefinition{
		FileProperties: &wireProperties{CSV: e.CSV},
		// Their shape in a one-shot definition is not shown; it is taken to be
		// that of a triggered one, without the code of a file.
		DataTransformations: e.transforms(""),
		DataLoading:         &wireLoading{Destination: e.Destination, Parameters: e.Parameters},
		ReportRecipients:    e.ReportRecipients,
	}
	if e.Remote == nil && e.Output == nil {
		return w
	}
	w.FileTransfer = &wireTransfer{}
	w.FileTransfer.Output.Location = e.Output.wire()
	if r := e.Remote; r != nil {
		w.Type = "ONESHOT"
		in := &w.FileTransfer.Input
		in.File = &wireFile{"", r.NamePattern, r.Compression, r.CompressedNamePattern}
		in.Location, in.Delete = remoteLocation(r.LocationID), &r.DeleteOnSuccess
	}
	return w
}

func (o *OutputLocation) wire() *wireLocation {
	switch {
	case o == nil:
		return nil
	case o.Entity != "":
		return &wireLocation{Type: "TRANSFERBOX", Entity: o.Entity}
	}
	return remoteLocation(o.RemoteLocationID)
}

func remoteLocation(id string) *wireLocation {
	if id == "" {
		return nil
	}
	return &wireLocation{Type: "REMOTE", RemoteLocationID: id}
}

// transforms is what stands in dataTransformations for one file: nothing where
// nothing is transformed.
func (l Load) transforms(code string) []wireTransforms {
	if len(l.Transformations) == 0 {
		return nil
	}
	w := wireTransforms{Code: code}
	for _, t := range l.Transformations {
		one := wireTransform{Header: t.Header}
		one.Transformation.Type, one.Transformation.Format = "DATE_FORMAT", t.DateFormat
		w.Transformations = append(w.Transformations, one)
	}
	return []wireTransforms{w}
}
