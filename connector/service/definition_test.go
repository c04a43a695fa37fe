package service

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// triggeredETL is a definition with every field of the interface: two files in
// one ZIP, one for each kind of table.
func triggeredETL() TriggeredETL {
	return TriggeredETL{
		Name: "nightly", Description: "customers, then their orders", Paused: true,
		ReportRecipients: []string{"ops@example.com"},
		RemoteLocationID: "ftps-1",
		Files: []ETLFile{
			{
				Code: "customers", NamePattern: "customers-$YYYYMMDD.csv",
				Compression: Zip, CompressedNamePattern: "all-$YYYYMMDD.zip",
				Load: Load{
					CSV:             CSVFormat{Encoding: "UTF-8", Separator: ";", Enclosing: `"`},
					Transformations: []Transformation{{Header: "born", DateFormat: "dd/MM/yyyy"}},
					Destination: Destination{ProfileTable, "customers", []Attribute{
						{Header: "no", Name: "customerNumber"},
						{"born", "birthDate", true, true, true, true},
					}},
					Parameters: Parameters{ModeCreateUpdate, true, true},
				},
			},
			{
				Code: "orders", NamePattern: "orders-$YYYYMMDD.csv",
				Load: Load{
					CSV:         CSVFormat{Separator: ","},
					Destination: Destination{CustomTable, "orders", []Attribute{{Header: "id", Name: "businessKey"}}},
					Parameters:  Parameters{Mode: ModeCreateOrUpdate},
				},
			},
		},
		Output: &OutputLocation{RemoteLocationID: "ftps-2"},
	}
}

// oneShotETL is the definition of a file that is sent along.
func oneShotETL() OneShotETL {
	load := triggeredETL().Files[0].Load
	load.Parameters.Mode = ModeDelete
	return OneShotETL{
		Load: load, ReportRecipients: []string{"ops@example.com"}, Output: &OutputLocation{Entity: "acme"},
	}
}

// remoteETL is the definition of a file to fetch.
func remoteETL() OneShotETL {
	e := oneShotETL()
	e.Remote = &RemoteFile{
		LocationID: "ftps-1", NamePattern: "customers-$YYYYMMDD.csv", Compression: Gzip,
		CompressedNamePattern: "customers-$YYYYMMDD.csv.gz", DeleteOnSuccess: true,
	}
	return e
}

const (
	wantMapping = `"attributesMapping":[
		{"header":"no","attributeName":"customerNumber","ignoreEmptyValues":false,"ignoreInvalidValues":false,
		 "ignoreValuesWhenAlreadyKnown":false,"mergeValuesWhenMultivalued":false},
		{"header":"born","attributeName":"birthDate","ignoreEmptyValues":true,"ignoreInvalidValues":true,
		 "ignoreValuesWhenAlreadyKnown":true,"mergeValuesWhenMultivalued":true}]`
	wantCustomers  = `"destination":{"type":"PROFILE_TABLE","id":"customers",` + wantMapping + `}`
	wantTransforms = `"transformations":[{"header":"born","transformation":{"type":"DATE_FORMAT","format":"dd/MM/yyyy"}}]`
	wantCSV        = `"csvFormat":{"encoding":"UTF-8","separator":";","enclosing":"\""}`
	wantDeletion   = `"dataLoading":{` + wantCustomers + `,
		"parameters":{"mode":"DELETE","generateResultFiles":true,"generateErrorFiles":true}}`
	wantTransferbox = `"output":{"location":{"type":"TRANSFERBOX","entity":"acme"}}`
)

func TestDefinitionsAreSentAsTheInterfaceHasThem(t *testing.T) {
	twice := triggeredETL()
	twice.Output = &OutputLocation{Entity: "acme"}
	twice.Files, twice.RemoteLocationID, twice.Paused = twice.Files[1:], "", false
	for name, tc := range map[string]struct {
		definition any
		want       string
	}{
		"triggered, every field": {triggeredETL(), `{"type":"TRIGGERED","name":"nightly",
			"description":"customers, then their orders","triggering":{"type":"API","paused":true},
			"reportRecipients":["ops@example.com"],
			"fileTransfer":{
				"input":{"location":{"type":"REMOTE","remoteLocationId":"ftps-1"},"files":[
					{"fileCode":"customers","fileNamePattern":"customers-$YYYYMMDD.csv","compressionType":"ZIP",
					 "compressedFileNamePattern":"all-$YYYYMMDD.zip"},
					{"fileCode":"orders","fileNamePattern":"orders-$YYYYMMDD.csv"}]},
				"output":{"location":{"type":"REMOTE","remoteLocationId":"ftps-2"}}},
			"inputFilesProperties":[{"fileCode":"customers",` + wantCSV + `},
				{"fileCode":"orders","csvFormat":{"separator":","}}],
			"dataTransformations":[{"fileCode":"customers",` + wantTransforms + `}],
			"dataLoadings":[
				{"fileCode":"customers",` + wantCustomers + `,
				 "parameters":{"mode":"CREATE_UPDATE","generateResultFiles":true,"generateErrorFiles":true}},
				{"fileCode":"orders","destination":{"type":"CUSTOM_TABLE","id":"orders","attributesMapping":[
					{"header":"id","attributeName":"businessKey","ignoreEmptyValues":false,"ignoreInvalidValues":false,
					 "ignoreValuesWhenAlreadyKnown":false,"mergeValuesWhenMultivalued":false}]},
				 "parameters":{"mode":"CREATE_OR_UPDATE","generateResultFiles":false,"generateErrorFiles":false}}]}`},
		"one-shot, file sent along": {oneShotETL(), `{"fileTransfer":{` + wantTransferbox + `},
			"inputFileProperties":{` + wantCSV + `},"dataTransformations":[{` + wantTransforms + `}],
			` + wantDeletion + `,"reportRecipients":["ops@example.com"]}`},
		"one-shot, file to fetch": {remoteETL(), `{"type":"ONESHOT","fileTransfer":{
			"input":{"file":{"fileNamePattern":"customers-$YYYYMMDD.csv","compressionType":"GZIP",
				"compressedFileNamePattern":"customers-$YYYYMMDD.csv.gz"},
				"location":{"type":"REMOTE","remoteLocationId":"ftps-1"},"deleteFilesOnSuccess":true},
			` + wantTransferbox + `},
			"inputFileProperties":{` + wantCSV + `},"dataTransformations":[{` + wantTransforms + `}],
			` + wantDeletion + `,"reportRecipients":["ops@example.com"]}`},
		"what is optional is left out": {
			OneShotETL{Load: Load{
				CSV: CSVFormat{Separator: ","}, Destination: Destination{Type: CustomTable, ID: "orders"},
				Parameters: Parameters{Mode: ModeUpdateOnly},
			}},
			`{"inputFileProperties":{"csvFormat":{"separator":","}},
			"dataLoading":{"destination":{"type":"CUSTOM_TABLE","id":"orders","attributesMapping":null},
			"parameters":{"mode":"UPDATE_ONLY","generateResultFiles":false,"generateErrorFiles":false}}}`,
		},
		"triggered, output into the transfer box": {twice.wire().FileTransfer, `{"input":{"files":[
			{"fileCode":"orders","fileNamePattern":"orders-$YYYYMMDD.csv"}]},` + wantTransferbox + `}`},
	} {
		got, err := json.Marshal(tc.definition)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decoded(t, got), decoded(t, []byte(tc.want))) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// TestDefinitionsThatCannotWorkAreNotSent breaks one rule at a time.
func TestDefinitionsThatCannotWorkAreNotSent(t *testing.T) {
	c := newClient(t, Config{BaseURL: "http://127.0.0.1:1", AuthURL: "http://127.0.0.1:1"})
	for want, broken := range map[string]func(*TriggeredETL){
		"name: must not be empty":                                                                                                                func(e *TriggeredETL) { e.Name = "" },
		"fileTransfer.input.files: must name at least one file":                                                                                  func(e *TriggeredETL) { e.Files = nil },
		"fileTransfer.input.files[0].fileCode: must not be empty":                                                                                func(e *TriggeredETL) { e.Files[0].Code = "" },
		`fileTransfer.input.files[1].fileCode: "customers" is another file's`:                                                                    func(e *TriggeredETL) { e.Files[1].Code = "customers" },
		"fileTransfer.input.files[1].fileNamePattern: must not be empty":                                                                         func(e *TriggeredETL) { e.Files[1].NamePattern = "" },
		`fileTransfer.input.files[0].compressionType: must be GZIP, ZIP or NONE, is "RAR"`:                                                       func(e *TriggeredETL) { e.Files[0].Compression = "RAR" },
		"inputFilesProperties[1].csvFormat.separator: must not be empty":                                                                         func(e *TriggeredETL) { e.Files[1].CSV = CSVFormat{} },
		`dataTransformations[0].transformations[0].header: "x" is not mapped`:                                                                    func(e *TriggeredETL) { e.Files[0].Transformations[0].Header = "x" },
		"dataTransformations[0].transformations[0].transformation.format: must not be empty":                                                     func(e *TriggeredETL) { e.Files[0].Transformations[0].DateFormat = "" },
		`dataLoadings[1].destination.type: must be PROFILE_TABLE or CUSTOM_TABLE, is "TABLE"`:                                                    func(e *TriggeredETL) { e.Files[1].Destination.Type = "TABLE" },
		"dataLoadings[1].destination.id: must not be empty":                                                                                      func(e *TriggeredETL) { e.Files[1].Destination.ID = "" },
		"dataLoadings[1].destination.attributesMapping: must map at least one header":                                                            func(e *TriggeredETL) { e.Files[1].Destination.Attributes = nil },
		"dataLoadings[0].destination.attributesMapping[0].header: must not be empty":                                                             func(e *TriggeredETL) { e.Files[0].Destination.Attributes[0].Header = "" },
		`dataLoadings[0].destination.attributesMapping[1].header: "no" is mapped already`:                                                        func(e *TriggeredETL) { e.Files[0].Destination.Attributes[1].Header = "no" },
		"dataLoadings[0].destination.attributesMapping[1].attributeName: must not be empty":                                                      func(e *TriggeredETL) { e.Files[0].Destination.Attributes[1].Name = "" },
		`dataLoadings[0].parameters.mode: must be one of [CREATE_OR_UPDATE CREATE_UPDATE CREATE_ONLY UPDATE_ONLY DELETE], is "create_or_update"`: func(e *TriggeredETL) { e.Files[0].Parameters.Mode = "create_or_update" },
		"reportRecipients[1]: is not an e-mail address":                                                                                          func(e *TriggeredETL) { e.ReportRecipients = append(e.ReportRecipients, "Ops <x@example.com>") },
		"fileTransfer.output.location: must name either a remote location or an entity":                                                          func(e *TriggeredETL) { e.Output.Entity = "acme" },
	} {
		e := triggeredETL()
		broken(&e)
		_, err := c.CreateETL(t.Context(), e)
		unsent(t, err, "create ETL: ", want)
	}
	for want, broken := range map[string]func(*OneShotETL){
		"fileTransfer.input.location.remoteLocationId: must not be empty":                            func(e *OneShotETL) { e.Remote.LocationID = "" },
		"fileTransfer.input.file.fileNamePattern: must not be empty":                                 func(e *OneShotETL) { e.Remote.NamePattern = "" },
		`fileTransfer.input.file.compressionType: must be GZIP, ZIP or NONE, is "x"`:                 func(e *OneShotETL) { e.Remote.Compression = "x" },
		"dataLoading.destination.id: must not be empty":                                              func(e *OneShotETL) { e.Destination.ID = "" },
		"inputFileProperties.csvFormat.separator: must not be empty":                                 func(e *OneShotETL) { e.CSV.Separator = "" },
		"fileTransfer.input: the file comes with the call or from a remote location, one of the two": func(e *OneShotETL) { e.Remote = nil },
	} {
		e := remoteETL()
		broken(&e)
		_, err := c.OneShotRemote(t.Context(), e, nil)
		unsent(t, err, "launch one-shot import: ", want)
	}
	_, err := c.OneShot(t.Context(), remoteETL(), fileOf("a\n"), nil)
	unsent(t, err, "launch one-shot import: ", "fileTransfer.input: the file comes with the call")
	broken := oneShotETL()
	broken.Parameters.Mode = ""
	_, err = c.OneShot(t.Context(), broken, fileOf("a\n"), nil)
	unsent(t, err, "launch one-shot import: ", "dataLoading.parameters.mode: ")
}

// unsent wants a rejection that nothing but the content caused: the address
// of the client answers nobody.
func unsent(t *testing.T, err error, prefix, want string) {
	t.Helper()
	e := errorOf(t, err)
	text := err.Error()
	if e.Kind() != Rejected || e.Status() != 0 || !strings.HasPrefix(text, prefix) ||
		!strings.Contains(text, want) || !strings.HasSuffix(text, "; nothing was sent") || strings.Contains(text, "\n") {
		t.Errorf("got %q (%v), want %q%s", text, e.Kind(), prefix, want)
	}
}

func TestAllMistakesOfADefinitionAreReportedAtOnce(t *testing.T) {
	err := TriggeredETL{Files: []ETLFile{{}}}.Validate()
	for _, want := range []string{"name: ", "fileCode: ", "separator: ", "destination.type: ", "attributesMapping: ", "mode: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
	if err := triggeredETL().Validate(); err != nil {
		t.Errorf("complete definition: got %v, want none", err)
	}
}

func TestReportRecipientsAreNotQuoted(t *testing.T) {
	e := oneShotETL()
	e.ReportRecipients = []string{"jane.doe"}
	if err := e.Validate(); err == nil || strings.Contains(err.Error(), "jane") {
		t.Errorf("got %v, want an error without the address", err)
	}
}
