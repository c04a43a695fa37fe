package router

import (
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Auto reports whether rows of the route, as Routed.Route numbers it, may be called
// instead, and what the route says of that: how old an event may be when the service has it
// (0: no matter), and whether calls are made with all the rate that is left.
func (c *Compiled) Auto(route int) (within time.Duration, spare, ok bool) {
	if within, spare, ok = c.Config.Routes[route].Auto(); ok && c.filesOnly == "" {
		return within, spare, true
	}
	return 0, false, false
}

// HasAuto reports whether some rows of the mapping may be called instead.
func (c *Compiled) HasAuto() bool { return c.hasAuto() && c.filesOnly == "" }

func (c *Compiled) hasAuto() bool {
	return slices.ContainsFunc(c.Config.Routes, func(r Route) bool { return r.Lane == autoLane })
}

// FilesOnly is why no row of the mapping's auto routes is ever called; "": they are, or
// there is no such route.
func (c *Compiled) FilesOnly() string { return c.filesOnly }

// Within is the shortest of the auto routes' times; 0: none has one.
func (c *Compiled) Within() (least time.Duration) {
	for i := range c.routes {
		if within, _, ok := c.Auto(i); ok && within > 0 && (least == 0 || within < least) {
			least = within
		}
	}
	return least
}

// AutoByFile is why rows of the mapping, one of mappings, would go by file only if all its
// routes were auto: a call could overtake what it is to follow, or a record could end in two
// places. "": they may be called.
func (c *Compiled) AutoByFile(mappings []*Compiled) string {
	switch {
	case c.bundle != nil:
		return "the mapping's files go together with those of its bundle"
	case slices.ContainsFunc(mappings, func(parent *Compiled) bool {
		return slices.Contains(c.Config.After, parent.Name) && parent.Uses(schemas.Immediate)
	}):
		return "a mapping that it comes after makes calls in the immediate lane, which only a file waits for"
	}
	return ""
}
