package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/feedsink/feedsink/router/check"
)

// Load reads the configuration file at path. Env looks up an environment
// variable, as os.LookupEnv does. A file that was read and cannot work is
// answered with *Problems.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, env, lacking{})
}

// NoETL stands for the id of an ETL that has still to be created.
const NoETL = "none yet"

// LoadUnfinished is Load for commands that need no ETLs: an import without one has
// NoETL, and whether those that are there fit is not looked at.
func LoadUnfinished(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, env, lacking{etls: true})
}

// LoadForSamples is LoadUnfinished for commands that reach neither brokers nor the service:
// files with secrets and certificates need not be there, nor variables of secrets be set.
func LoadForSamples(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, env, lacking{etls: true, secrets: true})
}

// lacking is what a configuration may be without.
type lacking struct{ etls, secrets bool }

func load(path string, env func(string) (string, bool), may lacking) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data, env, may)
}

func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read configuration: %w; -c names another file, feedsink init writes one", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return data, nil
}

// Parse reads a configuration file's content; name stands for the file in the
// problems. Every error is a *Problems that lists all mistakes, except
// that a YAML syntax error stands alone. The files that the configuration
// names (secrets, certificates) are looked at, nothing is connected to.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return parse(name, data, env, lacking{})
}

func parse(name string, data []byte, env func(string) (string, bool), may lacking) (*Config, error) {
	f := newFindings()
	cfg := f.decode(data, env, may)
	if cfg == nil {
		return nil, f.result(name)
	}
	all := &rules{findings: f, cfg: cfg, compile: check.Compile, noSecrets: may.secrets}
	if may.etls {
		all.compile = check.CompileUnfinished
		cfg.standInETLs()
	}
	all.all()
	if err := f.result(name); err != nil {
		return nil, err
	}
	return cfg, nil
}

// decode reads a file's content; nil where it is no YAML.
func (f *findings) decode(data []byte, env func(string) (string, bool), may lacking) *Config {
	root := read(f, data)
	if root == nil {
		return nil
	}
	cfg := defaults()
	(&decoder{findings: f, env: env, noSecrets: may.secrets}).value("", root, reflect.ValueOf(&cfg).Elem())
	return &cfg
}

// Warnings are what of the configuration file at path can work but is likely not meant.
// Env is that of Load, which has taken the file: of one that cannot work there are none.
func Warnings(path string, env func(string) (string, bool)) []Problem {
	data, err := readFile(path)
	if err != nil {
		return nil
	}
	f := newFindings()
	cfg := f.decode(data, env, lacking{secrets: true})
	if cfg == nil || len(f.problems) > 0 {
		return nil
	}
	r, problems := check.CompileUnfinished(cfg.Mappings)
	if len(problems) > 0 {
		return nil
	}
	for _, w := range check.Warnings(r) {
		f.breaks(w.Path, w.Message, w.Hint)
	}
	sortByPlace(f.problems)
	return f.problems
}

func (c *Config) standInETLs() {
	for i := range c.Mappings {
		for _, load := range c.Mappings[i].Imports.All() {
			load.ETL = cmp.Or(load.ETL, NoETL)
		}
	}
}

// LoadService reads the `service` block of the configuration file at path and
// nothing else of it: for single calls the rest may be missing. Env is that of
// Load, and a block that cannot work is answered with *Problems too.
func LoadService(path string, env func(string) (string, bool)) (*Service, error) {
	cfg, err := loadBlock(path, "service", env, func(cfg *Config) any { return &cfg.Service }, func(r *rules) { r.service(&r.cfg.Service) })
	if err != nil {
		return nil, err
	}
	return &cfg.Service, nil
}

// LoadAdmin is the same of the `admin` block: to ask a running sink, the rest need not
// work.
func LoadAdmin(path string, env func(string) (string, bool)) (*Admin, error) {
	cfg, err := loadBlock(path, "admin", env, func(cfg *Config) any { return &cfg.Admin }, func(r *rules) { r.admin(&r.cfg.Admin) })
	if err != nil {
		return nil, err
	}
	return &cfg.Admin, nil
}

func loadBlock(path, name string, env func(string) (string, bool), block func(*Config) any, check func(*rules)) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	f := newFindings()
	root := read(f, data)
	if root == nil {
		return nil, f.result(path)
	}
	cfg := defaults()
	if i := root.find(name); i >= 0 {
		e := root.entries[i]
		f.places[name] = place{line: e.line, column: e.column}
		(&decoder{findings: f, env: env}).value(name, e.value, reflect.ValueOf(block(&cfg)).Elem())
	}
	check(&rules{findings: f, cfg: &cfg})
	if err := f.result(path); err != nil {
		return nil, err
	}
	return &cfg, nil
}

// Way is what keeps brokers and a registry from being reached as it is said, or
// what must not be sent on that way: the rules of the blocks `kafka` and
// `schemaRegistry`, where there is no file yet. Files that are named are looked
// at, nothing is connected to. The problems name keys by the flags that stand for
// them, by the key's path.
func Way(k Kafka, r SchemaRegistry, flags map[string]string) []Problem {
	cfg := defaults()
	group, startAt, session := cfg.Kafka.Group, cfg.Kafka.StartAt, cfg.Kafka.SessionTimeout
	cfg.Kafka, cfg.SchemaRegistry = k, r
	cfg.Kafka.Group, cfg.Kafka.StartAt, cfg.Kafka.SessionTimeout = group, startAt, session // which are no part of it
	all := &rules{findings: newFindings(), cfg: &cfg, flags: flags}
	all.kafka(&cfg.Kafka)
	all.schemaRegistry(&cfg.SchemaRegistry)
	for i := range all.problems {
		p := &all.problems[i]
		key, _, _ := strings.Cut(p.Path, "[")
		p.Path = all.say(key, key) + p.Path[len(key):]
	}
	return all.problems
}
