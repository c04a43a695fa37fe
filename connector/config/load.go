package config

import (
	"cmp"
	"fmt"
	"os"
	"reflect"

	"github.com/feedsink/feedsink/router"
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
	return parse(name, data, env, router.Compile, func(*Config) {})
}

// NoETL stands for the id of an ETL that has still to be created.
const NoETL = "none yet"

// LoadUnfinished is Load for whoever creates the ETLs: an import without one has
// NoETL, and whether those that are there fit is not looked at.
func LoadUnfinished(path string, env func(string) (string, bool)) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return parse(path, data, env, router.CompileUnfinished, func(cfg *Config) {
		for i := range cfg.Mappings {
			im := &cfg.Mappings[i].Imports
			for _, load := range []*router.Import{im.Upsert, im.Patch, im.Create, im.Delete} {
				if load != nil {
					load.ETL = cmp.Or(load.ETL, NoETL)
				}
			}
		}
	})
}

// compiler is router.Compile or router.CompileUnfinished.
type compiler func([]router.Mapping) (*router.Router, []router.Problem)

// parse lets adapt change what was read before it is checked.
func parse(name string, data []byte, env func(string) (string, bool), compile compiler, adapt func(*Config)) (*Config, error) {
	f := newFindings()
	root := read(f, data)
	if root == nil {
		return nil, f.result(name)
	}
	cfg := defaults()
	(&decoder{findings: f, env: env}).value("", root, reflect.ValueOf(&cfg).Elem())
	adapt(&cfg)
	(&rules{findings: f, cfg: &cfg, compile: compile}).all()
	if err := f.result(name); err != nil {
		return nil, err
	}
	return &cfg, nil
}
