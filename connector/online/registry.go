package online

import (
	"fmt"
	"slices"
	"sync"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/schemas"
)

// subject is one that the schemas of a topic usually have, and the format that a mapping
// reads them in.
type subject struct {
	name   string
	format schemas.Format
}

// subjects are those of values and keys that were written through the registry.
func (c checker) subjects() (all []subject) {
	add := func(s subject) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, m := range c.router.Mappings() {
		for _, topic := range m.Config.Topics {
			if format := schemas.Format(m.Config.ValueFormat()); format != schemas.FormatJSON {
				add(subject{topic + "-value", format})
			}
			if format := schemas.Format(m.Config.KeyFormat()); format.Registered() {
				add(subject{topic + "-key", format})
			}
		}
	}
	return all
}

// registry asks for the subjects that topics usually have. None under the usual name is no
// mistake: writers may name their subjects otherwise.
func (c checker) registry() []Check {
	all := c.subjects()
	checks := make([]Check, len(all))
	var asking sync.WaitGroup
	for i, s := range all {
		asking.Go(func() { checks[i] = c.subject(s) })
	}
	asking.Wait()
	return checks
}

func (c checker) subject(s subject) Check {
	what := "schemas of " + s.name
	registry, err := build.NewRegistry(c.cfg, nil, nil, schemas.RegistryConfig{}) // asked once: no back-off
	if err != nil {
		return Check{what, Fail, err.Error()}
	}
	defer registry.Close()
	found, err := registry.Subject(c.ctx, s.name)
	switch {
	case err != nil:
		return Check{what, Fail, fmt.Sprintf("%v; check schemaRegistry.url and its login: until it answers, partitions wait", err)}
	case found.Versions == 0:
		return Check{what, Warn, "the registry has no such subject; it is no matter if writers register their schemas under another name"}
	case found.Unusable != nil:
		return Check{what, Fail, fmt.Sprintf("nothing can be read with the newest of %d: %v", found.Versions, found.Unusable)}
	case found.Format != s.format:
		return Check{what, Fail, fmt.Sprintf("the newest is of the format %s, but the mapping reads %s; correct its format", found.Format, s.format)}
	}
	return Check{what, OK, fmt.Sprintf("%d registered, and the newest can be read with", found.Versions)}
}
