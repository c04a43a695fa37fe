// Package reload compares a configuration that was read again with the one in use, keeps
// what became of it for metrics and status, and notices that the file has changed.
//
// It knows keys and which of them need a restart. It knows nothing of what is built from
// them.
package reload

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/router"
)

// Report is what a reload has changed.
type Report struct {
	Changed []string `json:"changed"`     // keys, in force by now: service.rate.calls, mapping orders: routes
	Restart []string `json:"needRestart"` // keys that have changed in the file and keep their value until a restart
}

// Nothing reports whether the file says what is in use.
func (r Report) Nothing() bool { return len(r.Changed)+len(r.Restart) == 0 }

// Quick reports whether nothing has changed but how much is logged.
func (r Report) Quick() bool {
	return !slices.ContainsFunc(r.Changed, func(key string) bool { return key != "log.level" })
}

// SameLogin reports whether the service's tokens are had as before: with the same key, from the
// same address. What a key file holds is read again with each token, whatever is reloaded.
func (r Report) SameLogin() bool {
	return !slices.ContainsFunc(r.Changed, func(key string) bool {
		return key == "service.authURL" || strings.HasPrefix(key, "service.apiKey") || strings.HasPrefix(key, "service.tls.")
	})
}

// Result is how a reload has ended. An error has changed nothing.
type Result struct {
	Report
	Err error
}

// ErrRestart says that a file can work, but not without a restart.
var ErrRestart = errors.New("nothing was changed, restart feedsink to apply the file")

// needRestart are keys whose value is fixed while the process runs, with what is below
// them, and how the value in use is kept.
var needRestart = map[string]func(next, inUse *config.Config){
	"kafka":           func(next, inUse *config.Config) { next.Kafka = inUse.Kafka },
	"admin":           func(next, inUse *config.Config) { next.Admin = inUse.Admin },
	"memory":          func(next, inUse *config.Config) { next.Memory = inUse.Memory },
	"tracing":         func(next, inUse *config.Config) { next.Tracing = inUse.Tracing },
	"spool.dir":       func(next, inUse *config.Config) { next.Spool.Dir = inUse.Spool.Dir },
	"service.timeout": func(next, inUse *config.Config) { next.Service.Timeout = inUse.Service.Timeout },
	"log.format":      func(next, inUse *config.Config) { next.Log.Format = inUse.Log.Format },
}

// Compare tells what differs between the configuration in use and the file, and returns
// the configuration that can be in use without a restart. The error is ErrRestart where
// mappings have changed together with the cluster or group that they are read from.
func Compare(inUse, file *config.Config) (*config.Config, Report, error) {
	next := *file
	for _, keep := range needRestart {
		keep(&next, inUse)
	}
	r := Report{Changed: []string{}, Restart: []string{}}
	for _, key := range different("", reflect.ValueOf(inUse).Elem(), reflect.ValueOf(file).Elem()) {
		if fixed(key) {
			r.Restart = append(r.Restart, key)
		} else if key != "mappings" {
			r.Changed = append(r.Changed, key)
		}
	}
	mappings := differentMappings(inUse.Mappings, file.Mappings)
	r.Changed = append(r.Changed, mappings...)
	for _, key := range []string{"kafka.brokers", "kafka.group"} {
		if len(mappings) > 0 && slices.Contains(r.Restart, key) {
			return nil, r, fmt.Errorf("%s has changed together with mappings: %w", key, ErrRestart)
		}
	}
	return &next, r, nil
}

func fixed(key string) bool {
	for of := range needRestart {
		if key == of || strings.HasPrefix(key, of+".") {
			return true
		}
	}
	return false
}

// different are the keys of two blocks of one kind whose values differ. Values are not
// told: they may be secrets.
func different(path string, a, b reflect.Value) (keys []string) {
	for i := range a.NumField() {
		name, isKey := a.Type().Field(i).Tag.Lookup("yaml")
		if !isKey {
			return []string{path} // a value of its own kind, as a secret is
		}
		name, _, _ = strings.Cut(name, ",")
		key := strings.TrimPrefix(path+"."+name, ".")
		switch x, y := a.Field(i), b.Field(i); {
		case reflect.DeepEqual(x.Interface(), y.Interface()):
		case x.Kind() == reflect.Struct:
			keys = append(keys, different(key, x, y)...)
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// differentMappings tells what has changed of mappings, known by their names.
func differentMappings(a, b []router.Mapping) (keys []string) {
	named := func(all []router.Mapping, name string) int {
		return slices.IndexFunc(all, func(m router.Mapping) bool { return m.Name == name })
	}
	for i := range b {
		at := named(a, b[i].Name)
		if at < 0 {
			keys = append(keys, "mapping "+b[i].Name+": added")
			continue
		}
		for _, key := range different("", reflect.ValueOf(a[at]), reflect.ValueOf(b[i])) {
			keys = append(keys, "mapping "+b[i].Name+": "+key)
		}
	}
	for i := range a {
		if named(b, a[i].Name) < 0 {
			keys = append(keys, "mapping "+a[i].Name+": removed")
		}
	}
	if len(keys) == 0 && !slices.EqualFunc(a, b, func(x, y router.Mapping) bool { return x.Name == y.Name }) {
		keys = []string{"mappings: order"}
	}
	return keys
}

// Text has a line for each key.
func (r *Report) Text() string {
	if r.Nothing() {
		return "nothing changed"
	}
	var lines []string
	for _, key := range r.Changed {
		lines = append(lines, "changed "+key)
	}
	for _, key := range r.Restart {
		lines = append(lines, key+": needs a restart")
	}
	return strings.Join(lines, "\n")
}
