package sandbox

import (
	"fmt"
	"net/http"
)

// definition is the body of operation 9 and, with the singular fields, the
// one-shot definition of operation 8.
type definition struct {
	Type         string         `json:"type"`
	Name         string         `json:"name"`
	Description  string         `json:"description"`
	Triggering   map[string]any `json:"triggering"`
	FileTransfer struct {
		Input struct {
			Files    []inputFile    `json:"files"`
			File     *inputFile     `json:"file"`
			Location map[string]any `json:"location"`
			Delete   bool           `json:"deleteFilesOnSuccess"`
		} `json:"input"`
		Output struct {
			Location map[string]any `json:"location"`
		} `json:"output"`
	} `json:"fileTransfer"`
	InputFilesProperties []fileProperties     `json:"inputFilesProperties"`
	InputFileProperties  *fileProperties      `json:"inputFileProperties"`
	DataTransformations  []dataTransformation `json:"dataTransformations"`
	DataLoadings         []dataLoading        `json:"dataLoadings"`
	DataLoading          *dataLoading         `json:"dataLoading"`
	ReportRecipients     []string             `json:"reportRecipients"`
}

type inputFile struct {
	FileCode                  string `json:"fileCode"`
	FileNamePattern           string `json:"fileNamePattern"`
	CompressionType           string `json:"compressionType"`
	CompressedFileNamePattern string `json:"compressedFileNamePattern"`
}

type fileProperties struct {
	FileCode  string `json:"fileCode"`
	CSVFormat struct {
		Encoding  string `json:"encoding"`
		Separator string `json:"separator"`
		Enclosing string `json:"enclosing"`
	} `json:"csvFormat"`
}

type dataTransformation struct {
	FileCode        string `json:"fileCode"`
	Transformations []struct {
		Header         string `json:"header"`
		Transformation struct {
			Type   string `json:"type"`
			Format string `json:"format"`
		} `json:"transformation"`
	} `json:"transformations"`
}

type dataLoading struct {
	FileCode    string `json:"fileCode"`
	Destination struct {
		Type              string `json:"type"`
		ID                string `json:"id"`
		AttributesMapping []struct {
			Header        string `json:"header"`
			AttributeName string `json:"attributeName"`
			IgnoreEmpty   bool   `json:"ignoreEmptyValues"`
			IgnoreInvalid bool   `json:"ignoreInvalidValues"`
			IgnoreKnown   bool   `json:"ignoreValuesWhenAlreadyKnown"`
			Merge         bool   `json:"mergeValuesWhenMultivalued"`
		} `json:"attributesMapping"`
	} `json:"destination"`
	Parameters struct {
		Mode                Mode `json:"mode"`
		GenerateResultFiles bool `json:"generateResultFiles"`
		GenerateErrorFiles  bool `json:"generateErrorFiles"`
	} `json:"parameters"`
}

// etl compiles a definition against the tables that exist.
func (s *Sandbox) etl(d definition) (ETL, error) {
	e := ETL{}
	for _, l := range d.DataLoadings {
		e.Loads = append(e.Loads, d.load(l))
	}
	if d.DataLoading != nil {
		e.Loads = append(e.Loads, d.load(*d.DataLoading))
	}
	tables := map[string]Table{}
	for name, t := range s.tables {
		tables[name] = t.conf
	}
	if err := e.validate(tables); err != nil {
		return e, refuse(http.StatusBadRequest, "definition: %s", err)
	}
	if err := d.checkDestinations(tables); err != nil {
		return e, refuse(http.StatusBadRequest, "definition: %s", err)
	}
	return e, nil
}

// checkDestinations wants the type of each destination to be its table's.
func (d definition) checkDestinations(tables map[string]Table) error {
	loadings := d.DataLoadings
	if d.DataLoading != nil {
		loadings = append(loadings, *d.DataLoading)
	}
	for _, l := range loadings {
		want := "PROFILE_TABLE"
		if tables[l.Destination.ID].Custom {
			want = "CUSTOM_TABLE"
		}
		if l.Destination.Type != want {
			return fmt.Errorf("destination %s: its type is %s", l.Destination.ID, want)
		}
	}
	return nil
}

// load gathers what the parts of a definition say of one file.
func (d definition) load(l dataLoading) Load {
	load := Load{
		Table:               l.Destination.ID,
		Mode:                l.Parameters.Mode,
		GenerateErrorFiles:  l.Parameters.GenerateErrorFiles,
		GenerateResultFiles: l.Parameters.GenerateResultFiles,
	}
	for _, f := range d.FileTransfer.Input.Files {
		if f.FileCode == l.FileCode {
			load.FileNamePattern = f.FileNamePattern
		}
	}
	properties := d.InputFilesProperties
	if d.InputFileProperties != nil {
		properties = append(properties, *d.InputFileProperties)
	}
	for _, p := range properties {
		if p.FileCode == l.FileCode {
			load.CSV = CSVFormat(p.CSVFormat)
		}
	}
	for _, m := range l.Destination.AttributesMapping {
		load.Columns = append(load.Columns, Column{
			Header:     m.Header,
			Attribute:  m.AttributeName,
			DateFormat: d.dateFormat(l.FileCode, m.Header),
			Flags:      Flags{m.IgnoreEmpty, m.IgnoreInvalid, m.IgnoreKnown, m.Merge},
		})
	}
	return load
}

// dateFormat is the DATE_FORMAT transformation of a header, "" for none.
func (d definition) dateFormat(fileCode, header string) string {
	for _, t := range d.DataTransformations {
		if t.FileCode != fileCode {
			continue
		}
		for _, one := range t.Transformations {
			if one.Header == header && one.Transformation.Type == "DATE_FORMAT" {
				return one.Transformation.Format
			}
		}
	}
	return ""
}
