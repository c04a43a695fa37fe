package sandbox

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
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
	FileCode                  string              `json:"fileCode"`
	FileNamePattern           string              `json:"fileNamePattern"`
	CompressionType           csvfile.Compression `json:"compressionType"`
	CompressedFileNamePattern string              `json:"compressedFileNamePattern"`
}

type fileProperties struct {
	FileCode  string          `json:"fileCode"`
	CSVFormat *csvfile.Format `json:"csvFormat"`
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
		Type              string   `json:"type"`
		ID                string   `json:"id"`
		AttributesMapping []Column `json:"attributesMapping"`
	} `json:"destination"`
	Parameters struct {
		Mode                Mode `json:"mode"`
		GenerateResultFiles bool `json:"generateResultFiles"`
		GenerateErrorFiles  bool `json:"generateErrorFiles"`
	} `json:"parameters"`
}

// etl compiles a definition against the tables and locations that exist.
func (s *Sandbox) etl(d definition, oneShot bool) (ETL, error) {
	e, err := d.compile(s.conf, oneShot)
	if err == nil {
		err = e.validate(s.conf)
	}
	for i, l := range d.DataLoadings {
		if err == nil {
			err = l.check(s.tables[e.Loads[i].Table])
		}
	}
	for _, l := range []Location{{Remote: e.Fetch.Remote}, e.Output} {
		if err == nil {
			err = s.exists(l)
		}
	}
	if err != nil {
		return e, refuse(http.StatusBadRequest, "definition: %s", err)
	}
	return e, nil
}

// compile gathers what the parts of a definition say. The singular fields of a
// one-shot definition become lists of one.
func (d *definition) compile(c Config, oneShot bool) (e ETL, err error) {
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
	switch out := d.FileTransfer.Output.Location; {
	case out == nil:
	case out.Type == "REMOTE" && out.RemoteLocationID != "":
		e.Output.Remote = out.RemoteLocationID
	case out.Type == "TRANSFERBOX" && out.Entity != "":
		e.Output.TransferBox = out.Entity
	default:
		return e, errors.New("output.location: type REMOTE with a remoteLocationId or TRANSFERBOX with an entity is expected")
	}
	for _, address := range d.ReportRecipients {
		if !isEmail(address) {
			return e, fmt.Errorf("reportRecipients: %w", formats[Email].refusal)
		}
	}
	e.Recipients = d.ReportRecipients
	e.Paused = d.Triggering != nil && d.Triggering.Paused
	for _, l := range d.DataLoadings {
		load, err := d.load(l)
		if err != nil {
			return e, err
		}
		load.Table = c.ofKind(l.Destination.ID, l.Destination.Type == "CUSTOM_TABLE")
		e.Loads = append(e.Loads, load)
	}
	return e, nil
}

// load gathers what is said of one file.
func (d *definition) load(l dataLoading) (Load, error) {
	load := Load{
		Mode:                l.Parameters.Mode,
		Columns:             slices.Clone(l.Destination.AttributesMapping),
		GenerateErrorFiles:  l.Parameters.GenerateErrorFiles,
		GenerateResultFiles: l.Parameters.GenerateResultFiles,
	}
	for _, f := range d.FileTransfer.Input.Files {
		if f.FileCode == l.FileCode {
			load.FileNamePattern, load.Compression = f.FileNamePattern, f.CompressionType
			load.CompressedFileNamePattern = f.CompressedFileNamePattern
		}
	}
	i := slices.IndexFunc(d.InputFilesProperties, func(p fileProperties) bool { return p.FileCode == l.FileCode })
	if i < 0 || d.InputFilesProperties[i].CSVFormat == nil {
		return load, fmt.Errorf("file %q: its csvFormat is missing", l.FileCode)
	}
	load.CSV = *d.InputFilesProperties[i].CSVFormat
	for _, group := range d.DataTransformations {
		if group.FileCode != l.FileCode {
			continue
		}
		for _, t := range group.Transformations {
			i := slices.IndexFunc(load.Columns, func(c Column) bool { return c.Header == t.Header })
			if i < 0 {
				return load, fmt.Errorf("transformation: header %q is not in the attribute mapping", t.Header)
			}
			if t.Transformation.Type != "DATE_FORMAT" || t.Transformation.Format == "" {
				return load, fmt.Errorf("transformation of %q: type DATE_FORMAT with a format is expected", t.Header)
			}
			load.Columns[i].DateFormat = t.Transformation.Format
		}
	}
	return load, nil
}

// unify turns the singular fields of a one-shot definition into the lists of a
// triggered one, and refuses the fields of the other kind.
func (d *definition) unify(oneShot bool) error {
	in := &d.FileTransfer.Input
	if !oneShot {
		if in.File != nil || d.InputFileProperties != nil || d.DataLoading != nil || d.DataTransformation != nil || d.Transformations != nil {
			return errors.New("file, inputFileProperties, dataLoading and its transformations are fields of a one-shot definition")
		}
		return nil
	}
	if in.Files != nil || d.InputFilesProperties != nil || d.DataLoadings != nil || d.Triggering != nil {
		return errors.New("files, inputFilesProperties, dataLoadings and triggering are fields of a triggered definition")
	}
	if d.DataLoading == nil || d.InputFileProperties == nil {
		return errors.New("dataLoading and inputFileProperties are required")
	}
	d.DataLoading.FileCode, d.InputFileProperties.FileCode = "", ""
	d.DataLoadings = []dataLoading{*d.DataLoading}
	d.InputFilesProperties = []fileProperties{*d.InputFileProperties}
	in.Files = []inputFile{{}}
	if in.File != nil {
		in.File.FileCode = ""
		in.Files[0] = *in.File
	}
	if d.DataTransformation != nil {
		d.DataTransformations = append(d.DataTransformations, *d.DataTransformation)
	}
	d.DataTransformations = append(d.DataTransformations, dataTransformation{Transformations: d.Transformations})
	for i := range d.DataTransformations {
		d.DataTransformations[i].FileCode = ""
	}
	return nil
}

// checkCodes wants every fileCode to be that of one file and of one loading.
func (d *definition) checkCodes() error {
	loadings := map[string]int{} // by the fileCode of a file
	for _, f := range d.FileTransfer.Input.Files {
		if _, twice := loadings[f.FileCode]; twice {
			return fmt.Errorf("files: fileCode %q stands there twice", f.FileCode)
		}
		loadings[f.FileCode] = 0
	}
	known := func(list, code string) error {
		if _, is := loadings[code]; !is {
			return fmt.Errorf("%s: no file has the fileCode %q", list, code)
		}
		return nil
	}
	for _, l := range d.DataLoadings {
		if err := known("dataLoadings", l.FileCode); err != nil {
			return err
		}
		if loadings[l.FileCode]++; loadings[l.FileCode] > 1 {
			return fmt.Errorf("dataLoadings: one item per file is expected, %q has two", l.FileCode)
		}
	}
	if len(d.DataLoadings) < len(loadings) {
		return fmt.Errorf("dataLoadings: one item per file is expected, there are %d for %d files", len(d.DataLoadings), len(loadings))
	}
	for _, p := range d.InputFilesProperties {
		if err := known("inputFilesProperties", p.FileCode); err != nil {
			return err
		}
	}
	for _, t := range d.DataTransformations {
		if err := known("dataTransformations", t.FileCode); err != nil {
			return err
		}
	}
	return nil
}

// check wants a destination to be of its table's type, and every header of its
// mapping to have a field to go to. A table without its key could not load a row.
func (l dataLoading) check(t *table) error {
	want := "PROFILE_TABLE"
	if t.conf.Custom {
		want = "CUSTOM_TABLE"
	}
	if l.Destination.Type != want {
		return fmt.Errorf("destination %s: its type is %s", t.conf.Name, want)
	}
	headers, attributes := map[string]bool{}, map[string]bool{}
	for _, m := range l.Destination.AttributesMapping {
		if m.Header == "" || m.Attribute == "" {
			return errors.New("attributesMapping: header and attributeName are required")
		}
		if headers[m.Header] || attributes[m.Attribute] {
			return fmt.Errorf("attributesMapping: %q to %q: a header and an attribute stand there once", m.Header, m.Attribute)
		}
		headers[m.Header], attributes[m.Attribute] = true, true
		if _, has := t.rule(m.Attribute); !has {
			return fmt.Errorf("attributesMapping: the table has no field %q", m.Attribute)
		}
		if t.technical(m.Attribute) && l.Parameters.Mode != CreateOnly {
			return fmt.Errorf("attributesMapping: %s: a technical attribute is taken from CREATE_ONLY imports alone", m.Attribute)
		}
	}
	if !slices.ContainsFunc(t.conf.Keys, func(key string) bool { return attributes[key] }) {
		return fmt.Errorf("attributesMapping: a unique key is required, one of %q", t.conf.Keys)
	}
	return nil
}
