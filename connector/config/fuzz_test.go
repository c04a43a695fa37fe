package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

// FuzzParse: whatever the file holds, Parse answers with a configuration or
// with problems that each stand at a line and say something.
func FuzzParse(f *testing.F) {
	f.Add([]byte(base))
	for _, name := range []string{"whole.yaml", "six.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, seed := range []string{
		"", "a", "- a", "&a [*a]", "a: &b {<<: *b}", "a: !!binary x", "? [a]\n: b", "kafka: |\n  x", "%YAML 1.2\n---\na: b",
		"kafka: {sasl: {username: \"${A:-${B}}\"}}", "mappings: [{topics: {a: [b]}}]", "service: {timeout: .inf}", "a: \"\\x0",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := config.Parse("f", data, environment("A", "${A}", "FEEDSINK_API_KEY", "key"))
		if err == nil {
			if cfg == nil {
				t.Fatal("got neither a configuration nor problems")
			}
			return
		}
		found, ok := errors.AsType[*config.Problems](err)
		if !ok || len(found.List) == 0 {
			t.Fatalf("got %v, want *Problems", err)
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for _, p := range found.List {
			if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Message == "" {
				t.Errorf("of %d lines: got %+v", lines, p)
			}
		}
	})
}
