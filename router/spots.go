package router

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/feedsink/feedsink/schemas"
)

// spots are those that the canonical events of a mapping have named, each found
// once. Their maps are replaced, never changed, since any number of goroutines
// reads them.
type spots struct {
	of    [schemas.Properties + 1]atomic.Pointer[map[string]*spot] // by section
	names int                                                      // in all of them
	one   sync.Mutex                                               // for who adds a name
}

// What is kept: names that come again, of which a table has some hundreds.
const (
	maxNames = 1024
	maxName  = 256 // bytes
)

// known is the spot of a canonical event's member.
func (c *Compiled) known(section schemas.Section, name string) *spot {
	if known := c.named.of[section].Load(); known != nil {
		if s := (*known)[name]; s != nil {
			return s
		}
	}
	s := c.spot(section, strings.Clone(name))
	c.named.add(&s)
	return &s
}

func (n *spots) add(s *spot) {
	n.one.Lock()
	defer n.one.Unlock()
	if n.names == maxNames || len(s.Name) > maxName {
		return
	}
	longer := map[string]*spot{}
	if known := n.of[s.Section].Load(); known != nil {
		if (*known)[s.Name] != nil {
			return // another goroutine's
		}
		longer = maps.Clone(*known)
	}
	longer[s.Name] = s
	n.of[s.Section].Store(&longer)
	n.names++
}
