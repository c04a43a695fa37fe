package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

func TestWarningsSayWhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "feedsink.yaml")
	if err := os.WriteFile(file, []byte(base+`  - name: orders
    topics: [shop.orders]
    customTable: orders
    key: businessKey
    fields: [{from: id, to: businessKey}, {from: status, to: status}]
    routes:
      - {when: 'statsu == "TEST"', lane: skip}
      - {lane: immediate}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(file, os.LookupEnv); err != nil {
		t.Fatal(err)
	}
	got := config.Warnings(file, os.LookupEnv)
	if len(got) != 1 || got[0].Line != 20 || got[0].Path != "mappings[1].routes[0].when" || got[0].Hint != `did you mean "status"?` {
		t.Errorf("got %+v, want line 20 of the file, and what was meant", got)
	}
	if got := config.Warnings(filepath.Join("testdata", "six.yaml"), os.LookupEnv); got != nil {
		t.Errorf("a file that cannot work: got %v, want none", got)
	}
}

func TestExamplesHaveNoWarnings(t *testing.T) {
	files, err := filepath.Glob("../../deploy/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: got %v, %v", files, err)
	}
	for _, file := range files {
		if got := config.Warnings(file, os.LookupEnv); len(got) > 0 {
			t.Errorf("%s: got %v, want none", file, got)
		}
	}
}
