package sandbox

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// definition is the body of operation 9 and, with the singular fields, the
// one-shot definition of operation 8.
type definition struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Triggering  *struct {
		Type   string `json:"type"`
		Paused bool   `json:"paused"`
	} `json:"triggering"`
	FileTransfer struct {
		Input struct {
			Files    []inputFile `json:"files"`
			File     *inputFile  `json:"file"`
			Location *location   `json:"location"`
			Delete   bool        `json:"deleteFilesOnSuccess"`
		} `json:"input"`
		Output struct {
			Location *location `json:"location"`
		} `json:"output"`
	} `json:"fileTransfer"`
	InputFilesProperties []fileProperties     `json:"inputFilesProperties"`
	InputFileProperties  *fileProperties      `json:"inputFileProperties"`
	DataTransformations  []dataTransformation `json:"dataTransformations"`
	DataLoadings         []dataLoading        `json:"dataLoadings"`
	DataLoading          *dataLoading         `json:"dataLoading"`
	ReportRecipients     []string             `json:"reportRecipients"`

	// The transformation of a one-shot definition is not shown: beside the shape
	// of a triggered one, an object and a bare list are understood.
	DataTransformation *dataTransformation `json:"dataTransformation"`
	Transformations    []transformation    `json:"transformations"`
}

// location is a remote location or a transfer box.
type location struct {
	Type             string `json:"type"`
	RemoteLocationID string `json:"remoteLocationId"`
	Entity           string `json:"entity"`
}

type inputFile struct {
	FileCode                  string      `json:"fileCode"`
	FileNamePattern           string      `json:"fileNamePattern"`
	CompressionType           Compression `json:"compressionType"`
	CompressedFileNamePattern string      `json:"compressedFileNamePattern"`
}

type fileProperties struct {
	FileCode  string `json:"fileCode"`
	CSVFormat *struct {
		Encoding  string `json:"encoding"`
		Separator string `json:"separator"`
		Enclosing string `json:"enclosing"`
	} `json:"csvFormat"`
}

type dataTransformation struct {
	FileCode        string           `json:"fileCode"`
	Transformations []transformation `json:"transformations"`
}

type transformation struct {
	Header         string `json:"header"`
	Transformation struct {
		Type   string `json:"type"`
		Format string `json:"format"`
	} `json:"transformation"`
}

type dataLoading struct {
	FileCode    string `json:"fileCode"`
	Destination struct {
		Type              string             `json:"type"`
		ID                string             `json:"id"`
		AttributesMapping []attributeMapping `json:"attributesMapping"`
	} `json:"destination"`
	Parameters struct {
		Mode                Mode `json:"mode"`
		GenerateResultFiles bool `json:"generateResultFiles"`
		GenerateErrorFiles  bool `json:"generateErrorFiles"`
	} `json:"parameters"`
}

type attributeMapping struct {
	Header        string `json:"header"`
	AttributeName string `json:"attributeName"`
	IgnoreEmpty   bool   `json:"ignoreEmptyValues"`
	IgnoreInvalid bool   `json:"ignoreInvalidValues"`
	IgnoreKnown   bool   `json:"ignoreValuesWhenAlreadyKnown"`
	Merge         bool   `json:"mergeValuesWhenMultivalued"`
}

// etl compiles a definition against the tables and locations that exist.
func (s *Sandbox) etl(d definition, oneShot bool) (ETL, error) {
	e, err := d.compile(oneShot)
	for i := range e.Loads {
		e.Loads[i].Table = s.conf.ofKind(e.Loads[i].Table, d.DataLoadings[i].Destination.Type == "CUSTOM_TABLE")
	}
	tables := map[string]Table{}
	for name, t := range s.tables {
		tables[name] = t.conf
	}
	if err == nil {
		err = e.validate(tables)
	}
	for i, l := range d.DataLoadings {
		if err == nil {
			err = l.check(s.tables[e.Loads[i].Table])
		}
	}
	if err == nil && e.Fetch.Remote != "" {
		err = s.exists(Location{Remote: e.Fetch.Remote})
	}
	if err == nil {
		err = s.exists(e.Output)
	}
	if err != nil {
		return e, refuse(http.StatusBadRequest, "definition: %s", err)
	}
	return e, nil
}

// compile gathers what the parts of a definition say. The singular fields of a
// one-shot definition become lists of one.
func (d *definition) compile(oneShot bool) (e ETL, err error) {
	if err := d.unify(oneShot); err != nil {
		return e, err
	}
	if err := d.checkCodes(); err != nil {
		return e, err
	}
	if in := d.FileTransfer.Input.Location; in != nil {
		if in.Type != "REMOTE" || in.RemoteLocationID == "" {
			return e, errors.New("input.location: type REMOTE with a remoteLocationId is expected")
		}
		e.Fetch = Fetch{Remote: in.RemoteLocationID, Delete: d.FileTransfer.Input.Delete}
	}
	if e.Output, err = d.FileTransfer.Output.Location.compile(); err != nil {
		return e, err
	}
	for _, address := range d.ReportRecipients {
		if !isEmail(address) {
			return e, fmt.Errorf("reportRecipients: %w", errNotEmail)
		}
	}
	e.Recipients = d.ReportRecipients
	e.Paused = d.Triggering != nil && d.Triggering.Paused
	for _, l := range d.DataLoadings {
		load, err := d.load(l)
		if err != nil {
			return e, err
		}
		e.Loads = append(e.Loads, load)
	}
	return e, nil
}

// compile checks an output location, which may be left out.
func (l *location) compile() (Location, error) {
	switch {
	case l == nil:
		return Location{}, nil
	case l.Type == "REMOTE" && l.RemoteLocationID != "":
		return Location{Remote: l.RemoteLocationID}, nil
	case l.Type == "TRANSFERBOX" && l.Entity != "":
		return Location{TransferBox: l.Entity}, nil
	}
	return Location{}, errors.New("output.location: type REMOTE with a remoteLocationId or TRANSFERBOX with an entity is expected")
}

// load gathers what is said of one file.
func (d *definition) load(l dataLoading) (Load, error) {
	load := Load{
		Table:               l.Destination.ID,
		Mode:                l.Parameters.Mode,
		GenerateErrorFiles:  l.Parameters.GenerateErrorFiles,
		GenerateResultFiles: l.Parameters.GenerateResultFiles,
	}
	if i := slices.IndexFunc(d.FileTransfer.Input.Files, func(f inputFile) bool { return f.FileCode == l.FileCode }); i >= 0 {
		f := d.FileTransfer.Input.Files[i]
		load.FileNamePattern, load.Compression = f.FileNamePattern, f.CompressionType
		load.CompressedFileNamePattern = f.CompressedFileNamePattern
	}
	i := slices.IndexFunc(d.InputFilesProperties, func(p fileProperties) bool { return p.FileCode == l.FileCode })
	if i < 0 || d.InputFilesProperties[i].CSVFormat == nil {
		return load, fmt.Errorf("file %q: its csvFormat is missing", l.FileCode)
	}
	load.CSV = CSVFormat(*d.InputFilesProperties[i].CSVFormat)
	for _, m := range l.Destination.AttributesMapping {
		load.Columns = append(load.Columns, Column{
			Header:    m.Header,
			Attribute: m.AttributeName,
			Flags:     Flags{m.IgnoreEmpty, m.IgnoreInvalid, m.IgnoreKnown, m.Merge},
		})
	}
	return load, d.transform(l.FileCode, load.Columns)
}

// transform notes the transformations of a file at its columns.
func (d *definition) transform(fileCode string, columns []Column) error {
	for _, group := range d.DataTransformations {
		if group.FileCode != fileCode {
			continue
		}
		for _, t := range group.Transformations {
			i := slices.IndexFunc(columns, func(c Column) bool { return c.Header == t.Header })
			if i < 0 {
				return fmt.Errorf("transformation: header %q is not in the attribute mapping", t.Header)
			}
			if t.Transformation.Type != "DATE_FORMAT" || t.Transformation.Format == "" {
				return fmt.Errorf("transformation of %q: type DATE_FORMAT with a format is expected", t.Header)
			}
			columns[i].DateFormat = t.Transformation.Format
		}
	}
	return nil
}
