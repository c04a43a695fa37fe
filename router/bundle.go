package router

import (
	"cmp"
	"slices"
)

// Bundle is the mappings whose files go with this one's as one ZIP, itself among
// them, in the order in which they are loaded: parents first, as `after` says,
// else in that of the configuration. nil: the mapping's files go by themselves.
func (c *Compiled) Bundle() []*Compiled { return slices.Clone(c.bundle) }

// EntryName is the name of the mapping's file in the ZIP of its bundle, a pattern
// with the date token $YYYYMMDD or without. Without is what it is by default: a
// day that ends while a file waits for its slot cannot make such a name wrong.
func (c *Compiled) EntryName() string { return cmp.Or(c.Config.Imports.FileName, c.Name+".csv") }

// joinBundles joins the mappings of each bundle.
func joinBundles(compiled []*Compiled) {
	bundles := map[string][]*Compiled{}
	for _, c := range compiled {
		if name := c.Config.Bundle; name != "" {
			bundles[name] = append(bundles[name], c)
		}
	}
	for _, members := range bundles {
		ordered := parentsFirst(members)
		for _, c := range members {
			c.bundle = ordered
		}
	}
}

// parentsFirst orders mappings so that each comes behind those it names in
// `after`. Those that wait for one another, which is refused, stay as they are.
func parentsFirst(members []*Compiled) (ordered []*Compiled) {
	left := slices.Clone(members)
	for len(left) > 0 {
		next := max(slices.IndexFunc(left, func(c *Compiled) bool {
			return !slices.ContainsFunc(left, func(parent *Compiled) bool { return slices.Contains(c.Config.After, parent.Name) })
		}), 0)
		ordered, left = append(ordered, left[next]), slices.Delete(left, next, next+1)
	}
	return ordered
}
