package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

func TestBillOfMaterialsNamesEveryModule(t *testing.T) {
	bom := materials(&debug.BuildInfo{
		GoVersion: "go1.26.7 X:nodwarf5",
		Main:      debug.Module{Path: "github.com/feedsink/feedsink", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:aaa="},
			{Path: "example.com/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v2.0.1", Sum: "h1:bbb="}},
		},
	}, "v1.2.3")
	var got []string
	for _, c := range *bom.Components {
		got = append(got, c.PackageURL)
	}
	want := "pkg:golang/std@1.26.7 pkg:golang/example.com/a@v1.0.0 pkg:golang/example.com/fork@v2.0.1"
	if strings.Join(got, " ") != want {
		t.Errorf("components: got %v, want %s", got, want)
	}
	if got := bom.Metadata.Component.PackageURL; got != "pkg:golang/github.com/feedsink/feedsink@v1.2.3" {
		t.Errorf("subject: got %s", got)
	}
}

func TestSameBinaryHasTheSameBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	if err := write(&one, self, "v1"); err != nil {
		t.Fatal(err)
	}
	if err := write(&two, self, "v1"); err != nil || one.String() != two.String() {
		t.Errorf("two runs differ, or %v", err)
	}
	var read cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(&one, cyclonedx.BOMFileFormatJSON).Decode(&read); err != nil || read.SpecVersion == 0 {
		t.Errorf("got %v of version %v, want a readable document", err, read.SpecVersion)
	}
	if err := write(&two, "main_test.go", "v1"); err == nil {
		t.Error("a file that is no binary: got no error")
	}
}
