package contract

import (
	"fmt"
	"iter"
	"slices"
)

// Names are the partitions' names, sorted.
func Names(partitions iter.Seq[Partition]) (all []string) {
	for p := range partitions {
		all = append(all, p.String())
	}
	slices.Sort(all)
	return all
}

// Unread says how far a partition is read that has to be read on.
func Unread(p Partition, end int64) string {
	text := fmt.Sprintf("%s is read up to offset %d of %d by the batch lane", p, p.Read(), end)
	if reason := p.Halted(); reason != "" {
		text += ", where it is halted: " + reason
	}
	if what := p.Waits(); what != "" {
		text += ", where its records wait: " + what
	}
	return text
}
