package sandbox_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func TestCellsBecomeValuesOfTheirFields(t *testing.T) {
	v := newService(t, config())
	e := v.load("up", strings.Join([]string{
		"customerNumber,age,score,adult,birthDate,languages,subscriptions#newsletter,S_vip,S_tier,note",
		`C1,-4,1.50,true,2000-01-31,fr|en,true,false,gold,"a ""b"",` + "\r\n" + `c"`,
		`C2,,,,,"[""de"",""nl""]",false,,,`,
	}, "\n"))
	if e.Results.InError != 0 || e.Results.Inserted != 2 {
		t.Fatalf("got %+v %s", e.Results, e.Error)
	}
	v.wantRow("customers", "C1", map[string]string{
		"customerNumber": "C1", "age": "-4", "score": "1.50", "adult": "true", "birthDate": "2000-01-31",
		"languages": `["fr","en"]`, "subscriptions#newsletter": "true", "S_vip": "false", "S_tier": "gold",
		"note": "a \"b\",\r\nc",
	})
	v.wantRow("customers", "C2", map[string]string{
		"customerNumber": "C2", "languages": `["de","nl"]`, "subscriptions#newsletter": "false",
	})
	byCall := v.profile(`{"attributes":{"customerNumber":"C3","age":-4,"score":1.50,"adult":true,"languages":["fr","en"]}}`)
	called, _ := v.Row("customers", "C3")
	loaded, _ := v.Row("customers", "C1")
	for _, name := range []string{"age", "score", "adult", "languages"} {
		if !reflect.DeepEqual(called.Values[name], loaded.Values[name]) {
			t.Errorf("%s: %#v from a call (%s), %#v from a file", name, called.Values[name], byCall, loaded.Values[name])
		}
	}
}

func TestRowsInErrorAreCountedAndReported(t *testing.T) {
	v := newService(t, config())
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	v.profile(`{"attributes":{"customerNumber":"C2","emailAddress":"b@example.com"}}`)
	e := v.load("up", strings.Join([]string{
		"customerNumber,emailAddress,age,note",
		"C3,c@example.com,30,fine",
		"C4,nobody,30,mail",
		",,30,nobody",
		"C5,e@example.com,old,\"quoted, \"\"age\"\"\"",
		"C1,b@example.com,1,two profiles",
		"C6,f@example.com,31,fine",
	}, "\n"))
	if want := (sandbox.Results{Read: 6, InError: 4, Inserted: 2}); e.Results != want {
		t.Errorf("got %+v, want %+v", e.Results, want)
	}
	got := v.must(200, http.MethodGet, massBase+"/etl-executions/"+e.ID+"/output-files", "")
	want := strings.Join([]string{
		"customerNumber,emailAddress,age,note,error",
		"C4,nobody,30,mail,emailAddress: not a valid e-mail address",
		`,,30,nobody,"no unique key: one of customerNumber, emailAddress is needed"`,
		`C5,e@example.com,old,"quoted, ""age""",age: not a whole number from -2147483648 to 2147483647`,
		"C1,b@example.com,1,two profiles,unique keys match different profiles",
	}, "\n")
	if got != want {
		t.Errorf("error file:\n got %s\nwant %s", got, want)
	}
}

func TestMappingFlagsGovernUpdates(t *testing.T) {
	c := config()
	c.ETLs = []sandbox.ETL{{ID: "up", Loads: []sandbox.Load{{
		Table: "customers", Mode: sandbox.CreateOrUpdate,
		CSV: sandbox.CSVFormat{Separator: ";", Enclosing: "'", Encoding: "ISO-8859-1"},
		Columns: []sandbox.Column{
			{Header: "no", Attribute: "customerNumber"},
			{Header: "first", Attribute: "firstName"},
			{Header: "note", Attribute: "note", Flags: sandbox.Flags{IgnoreEmptyValues: true}},
			{Header: "age", Attribute: "age", Flags: sandbox.Flags{IgnoreInvalidValues: true}},
			{Header: "sex", Attribute: "sex", Flags: sandbox.Flags{IgnoreValuesWhenKnown: true}},
			{Header: "lang", Attribute: "languages", Flags: sandbox.Flags{MergeValuesWhenMultivalued: true}},
			{Header: "born", Attribute: "birthDate", DateFormat: "dd/MM/yyyy"},
		},
	}}}}
	v := newService(t, c)
	v.profile(`{"attributes":{"customerNumber":"C1","firstName":"Ann","note":"n","age":1,"sex":"F","languages":["fr"]}}`)
	e := v.load("up", "no;first;note;age;sex;lang;born\nC1;;;old;M;en;31/12/1999\nC2;'Zo\xeb; \"ok\"';x;2;M;de;\n")
	if want := (sandbox.Results{Read: 2, Inserted: 1, Updated: 1}); e.Results != want {
		t.Fatalf("got %+v %s, want %+v", e.Results, e.Error, want)
	}
	v.wantRow("customers", "C1", map[string]string{
		"customerNumber": "C1", "note": "n", "age": "1", "sex": "F", "languages": `["fr","en"]`, "birthDate": "1999-12-31",
	})
	v.wantRow("customers", "C2", map[string]string{
		"customerNumber": "C2", "firstName": `Zoë; "ok"`, "note": "x", "age": "2", "sex": "M", "languages": `["de"]`,
	})
	if e := v.load("up", "no;other\nC1;x\n"); !strings.Contains(e.Error, `header "other" is not in the attribute mapping`) {
		t.Errorf("unmapped header: got %s %s", e.Status, e.Error)
	}
}
