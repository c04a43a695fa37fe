package config

import (
	"fmt"
	"os"
	"reflect"
)

// Load reads the configuration file at path. Env looks up an environment
// variable, as os.LookupEnv does. A file that was read and cannot work is
// answered with *Problems.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data, env)
}

// Parse reads a configuration file's content; name stands for the file in the
// problems. Every error is a *Problems that lists all there is to mend, except
// that a YAML syntax error stands alone. The files that the configuration
// names (secrets, certificates) are looked at, nothing is connected to.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	f := newFindings()
	root := read(f, data)
	if root == nil {
		return nil, f.result(name)
	}
	cfg := defaults()
	(&decoder{findings: f, env: env}).value("", root, reflect.ValueOf(&cfg).Elem())
	(&rules{findings: f, cfg: &cfg}).all()
	if err := f.result(name); err != nil {
		return nil, err
	}
	return &cfg, nil
}
