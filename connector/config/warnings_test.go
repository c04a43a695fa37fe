package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

func TestWarningsSayWhere(t *testing.T) {
	file := config.File{Name: "feedsink.yaml", Data: []byte(base + `  - name: orders
    topics: [shop.orders]
    customTable: orders
    key: businessKey
    fields: [{from: id, to: businessKey}, {from: status, to: status}]
    routes:
      - {when: 'statsu == "TEST"', lane: skip}
      - {lane: immediate}
`)}
	if _, err := file.Config(os.LookupEnv); err != nil {
		t.Fatal(err)
	}
	got := file.Warnings(os.LookupEnv)
	if len(got) != 1 || got[0].Line != 20 || got[0].Path != "mappings[1].routes[0].when" || got[0].Hint != `did you mean "status"?` {
		t.Errorf("got %+v, want line 20 of the file, and what was meant", got)
	}
	if got := read(t, filepath.Join("testdata", "six.yaml")).Warnings(os.LookupEnv); got != nil {
		t.Errorf("a file that cannot work: got %v, want none", got)
	}
}

func TestExamplesHaveNoWarnings(t *testing.T) {
	files, err := filepath.Glob("../../deploy/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: got %v, %v", files, err)
	}
	for _, file := range files {
		if got := read(t, file).Warnings(os.LookupEnv); len(got) > 0 {
			t.Errorf("%s: got %v, want none", file, got)
		}
	}
}

func read(t *testing.T, path string) config.File {
	t.Helper()
	file, err := config.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
