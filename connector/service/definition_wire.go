package service

// The shapes of definitions on the wire. They tie what belongs to one file
// together by its code and spread it over four lists; here it is one ETLFile.

type wireTriggered struct {
	Type                string           `json:"type"`
	Name                string           `json:"name"`
	Description         string           `json:"description,omitempty"`
	Triggering          wireTriggering   `json:"triggering"`
	ReportRecipients    []string         `json:"reportRecipients,omitempty"`
	FileTransfer        wireTransfer     `json:"fileTransfer"`
	FilesProperties     []wireProperties `json:"inputFilesProperties"`
	DataTransformations []wireTransforms `json:"dataTransformations,omitempty"`
	DataLoadings        []wireLoading    `json:"dataLoadings"`
}

type wireOneShot struct {
	Type                string           `json:"type,omitempty"` // form A only, as the samples have it
	FileTransfer        *wireTransfer    `json:"fileTransfer,omitempty"`
	FileProperties      wireProperties   `json:"inputFileProperties"`
	DataTransformations []wireTransforms `json:"dataTransformations,omitempty"`
	DataLoading         wireLoading      `json:"dataLoading"`
	ReportRecipients    []string         `json:"reportRecipients,omitempty"`
}

type wireTriggering struct {
	Type   string `json:"type"`
	Paused bool   `json:"paused"`
}

type wireTransfer struct {
	Input  *wireInput  `json:"input,omitempty"`
	Output *wireOutput `json:"output,omitempty"`
}

type wireInput struct {
	Files    []wireFile    `json:"files,omitempty"`
	File     *wireFile     `json:"file,omitempty"`
	Location *wireLocation `json:"location,omitempty"`
	Delete   *bool         `json:"deleteFilesOnSuccess,omitempty"`
}

type wireOutput struct {
	Location wireLocation `json:"location"`
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

func (e TriggeredETL) wire() wireTriggered {
	w := wireTriggered{
		Type: "TRIGGERED", Name: e.Name, Description: e.Description,
		Triggering:       wireTriggering{Type: "API", Paused: e.Paused},
		ReportRecipients: e.ReportRecipients,
		FileTransfer:     wireTransfer{Input: &wireInput{}, Output: e.Output.wire()},
	}
	if e.RemoteLocationID != "" {
		w.FileTransfer.Input.Location = remoteLocation(e.RemoteLocationID)
	}
	for _, f := range e.Files {
		w.FileTransfer.Input.Files = append(w.FileTransfer.Input.Files,
			wireFile{f.Code, f.NamePattern, f.Compression, f.CompressedNamePattern})
		w.FilesProperties = append(w.FilesProperties, wireProperties{f.Code, f.CSV})
		w.DataTransformations = append(w.DataTransformations, f.transforms(f.Code)...)
		w.DataLoadings = append(w.DataLoadings, wireLoading{f.Code, f.Destination, f.Parameters})
	}
	return w
}

func (e OneShotETL) wire() wireOneShot {
	w := wireOneShot{
		FileProperties: wireProperties{CSV: e.CSV},
		// Their shape in a one-shot definition is not shown; it is taken to be
		// that of a triggered one, without the code of a file.
		DataTransformations: e.transforms(""),
		DataLoading:         wireLoading{Destination: e.Destination, Parameters: e.Parameters},
		ReportRecipients:    e.ReportRecipients,
	}
	if e.Remote != nil || e.Output != nil {
		w.FileTransfer = &wireTransfer{Output: e.Output.wire()}
	}
	if r := e.Remote; r != nil {
		w.Type = "ONESHOT"
		w.FileTransfer.Input = &wireInput{
			File:     &wireFile{"", r.NamePattern, r.Compression, r.CompressedNamePattern},
			Location: remoteLocation(r.LocationID),
			Delete:   &r.DeleteOnSuccess,
		}
	}
	return w
}

func (o *OutputLocation) wire() *wireOutput {
	switch {
	case o == nil:
		return nil
	case o.RemoteLocationID != "":
		return &wireOutput{*remoteLocation(o.RemoteLocationID)}
	}
	return &wireOutput{wireLocation{Type: "TRANSFERBOX", Entity: o.Entity}}
}

func remoteLocation(id string) *wireLocation {
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
