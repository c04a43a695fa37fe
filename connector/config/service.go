package config

import (
	"fmt"
	"os"
	"reflect"
)

// LoadService reads the `service` block of the configuration file at path and
// nothing else of it: for single calls the rest may be missing. Env is that of
// Load, and a block that cannot work is answered with *Problems too.
func LoadService(path string, env func(string) (string, bool)) (*Service, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	f := newFindings()
	root := read(f, data)
	if root == nil {
		return nil, f.result(path)
	}
	cfg := defaults()
	if i := root.find("service"); i >= 0 {
		e := root.entries[i]
		f.places["service"] = place{line: e.line, column: e.column}
		(&decoder{findings: f, env: env}).value("service", e.value, reflect.ValueOf(&cfg.Service).Elem())
	}
	(&rules{findings: f, cfg: &cfg}).service(&cfg.Service)
	if err := f.result(path); err != nil {
		return nil, err
	}
	return &cfg.Service, nil
}
