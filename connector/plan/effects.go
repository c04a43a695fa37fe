package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Effects counts for a mapping's routes to calls which of their writes are calls. The
// zero value has counted nothing.
type Effects struct{ counts map[routeOp]*counts }

type routeOp struct {
	route int
	op    schemas.Op
}

type counts struct{ all, byFile int64 }

// NoEffect is a route to calls of which writes of an op go by file, since the interface
// has no call for them: a profile's patch and delete need the service's id, and its
// create and merge are an import's alone.
type NoEffect struct {
	Route  int    `json:"route"` // of the mapping, from 1
	Op     string `json:"op"`
	ByFile int64  `json:"byFile"`
	Writes int64  `json:"writes"` // of the route and op; of these, ByFile go by file
}

// Add counts what a mapping makes of a record.
func (e *Effects) Add(r *router.Routed) {
	if r.Err != nil || r.Lane == schemas.Skip || r.Mapping.Config.Routes[r.Route].Lane != "immediate" {
		return
	}
	if e.counts == nil {
		e.counts = map[routeOp]*counts{}
	}
	at := routeOp{r.Route, r.Write.Op}
	if e.counts[at] == nil {
		e.counts[at] = &counts{}
	}
	e.counts[at].all++
	if r.Lane == schemas.Batch {
		e.counts[at].byFile++
	}
}

// None are the routes and ops without effect, in the order of routes and ops.
func (e *Effects) None() (none []NoEffect) {
	for at, n := range e.counts {
		if n.byFile > 0 {
			none = append(none, NoEffect{at.route + 1, at.op.String(), n.byFile, n.all})
		}
	}
	slices.SortFunc(none, func(a, b NoEffect) int { return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Op, b.Op)) })
	return none
}

// String says what happens and what to do.
func (n NoEffect) String() string {
	why := "they have no profileId, which a call needs; name its path in profileId, or make the route's lane batch"
	switch n.Op {
	case schemas.Create.String():
		why = "a profile is created only by an import; make the route's lane batch, or its op upsert"
	case schemas.Merge.String():
		why = "a profile is merged only by an import; make the route's lane batch"
	}
	return fmt.Sprintf("routes[%d] leads to calls, but %d of %d writes of the op %s go by file: %s", n.Route-1, n.ByFile, n.Writes, n.Op, why)
}
