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

// File is a configuration file as it was read: whatever is asked of it is answered from the
// same content. A file that cannot work is answered with *Problems, which lists all
// mistakes, except that a YAML syntax error stands alone. The files that the configuration
// names (secrets, certificates) are looked at, nothing is connected to. Env looks up an
// environment variable, as os.LookupEnv does.
type File struct {
	Name string // as the problems have it
	Data []byte
}

// Read reads the configuration file at path.
func Read(path string) (File, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, fmt.Errorf("read configuration: %w; -c names another file, feedsink init writes one", err)
	}
	if err != nil {
		return File{}, fmt.Errorf("read configuration: %w", err)
	}
	return File{path, data}, nil
}

// Load reads the configuration file at path, and is Config of it.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	f, err := Read(path)
	if err != nil {
		return nil, err
	}
	return f.Config(env)
}

// Parse is Config of a file with this content; name stands for it in the problems.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return File{name, data}.Config(env)
}

// Config is what the file says, if a sink can work with it.
func (file File) Config(env func(string) (string, bool)) (*Config, error) {
	return file.parse(env, lacking{})
}

// NoETL stands for the id of an ETL that has still to be created.
const NoETL = "none yet"

// Unfinished is Config for commands that need no ETLs: an import without one has
// NoETL, and whether those that are there fit is not looked at.
func (file File) Unfinished(env func(string) (string, bool)) (*Config, error) {
	return file.parse(env, lacking{etls: true})
}

// ForSamples is Unfinished for commands that reach neither brokers nor the service:
// files with secrets and certificates need not be there, nor variables of secrets be set.
func (file File) ForSamples(env func(string) (string, bool)) (*Config, error) {
	return file.parse(env, lacking{etls: true, secrets: true})
}

// lacking is what a configuration may be without.
type lacking struct{ etls, secrets bool }

func (file File) parse(env func(string) (string, bool), may lacking) (*Config, error) {
	f := newFindings()
	cfg := f.decode(file.Data, env, may)
	if cfg == nil {
		return nil, f.result(file.Name)
	}
	all := &rules{findings: f, cfg: cfg, compile: check.Compile, noSecrets: may.secrets}
	if may.etls {
		all.compile = check.CompileUnfinished
		cfg.standInETLs()
	}
	all.all()
	if err := f.result(file.Name); err != nil {
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
	cfg.usualReserve()
	return &cfg
}

// Warnings are what of the file can work but is likely not meant. Of a file that cannot work
// there are none.
func (file File) Warnings(env func(string) (string, bool)) []Problem {
	f := newFindings()
	cfg := f.decode(file.Data, env, lacking{secrets: true})
	if cfg == nil || len(f.problems) > 0 {
		return nil
	}
	r, problems := check.CompileUnfinished(cfg.Mappings)
	if len(problems) > 0 {
		return nil
	}
	for _, w := range check.Warnings(r) {
		f.compiled(w)
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

// Service is the `service` block and nothing else of the file: for single calls the rest may
// be missing.
func (file File) Service(env func(string) (string, bool)) (*Service, error) {
	cfg, err := file.block("service", env, func(cfg *Config) any { return &cfg.Service }, func(r *rules) { r.service(&r.cfg.Service) })
	if err != nil {
		return nil, err
	}
	return &cfg.Service, nil
}

// Admin is the same of the `admin` block: to ask a running sink, the rest need not
// work.
func (file File) Admin(env func(string) (string, bool)) (*Admin, error) {
	cfg, err := file.block("admin", env, func(cfg *Config) any { return &cfg.Admin }, func(r *rules) { r.admin(&r.cfg.Admin) })
	if err != nil {
		return nil, err
	}
	return &cfg.Admin, nil
}

func (file File) block(name string, env func(string) (string, bool), block func(*Config) any, check func(*rules)) (*Config, error) {
	f := newFindings()
	root := read(f, file.Data)
	if root == nil {
		return nil, f.result(file.Name)
	}
	cfg := defaults()
	if i := root.find(name); i >= 0 {
		e := root.entries[i]
		f.places[name] = e.place
		(&decoder{findings: f, env: env}).value(name, e.value, reflect.ValueOf(block(&cfg)).Elem())
	}
	check(&rules{findings: f, cfg: &cfg})
	if err := f.result(file.Name); err != nil {
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
