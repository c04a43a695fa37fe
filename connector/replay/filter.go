package replay

import (
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
)

// Filter says which dead letters are meant. What is left zero does not restrict.
type Filter struct {
	Mappings []string
	Reasons  []string // codes
	Keys     []string // keys of the records, as text
	// Since and Until bound the records' timestamps, the latter exclusively.
	Since, Until time.Time
	// Topic, Partitions and Offsets are where the records came from.
	Topic      string
	Partitions []int32
	Offsets    *Offsets
}

// Offsets are those from First to Last, both included.
type Offsets struct{ First, Last int64 }

// Match reports whether the dead letter is meant.
func (f *Filter) Match(l *deadletter.Received) bool {
	r := l.Record
	if l.NoRecord() && (len(f.Partitions) > 0 || f.Offsets != nil) {
		return false // it came from none of them
	}
	return among(f.Mappings, l.Mapping) && among(f.Reasons, l.Code) && among(f.Keys, string(r.Key)) &&
		among(f.Partitions, r.Partition) &&
		(f.Since.IsZero() || !r.Timestamp.Before(f.Since)) &&
		(f.Until.IsZero() || r.Timestamp.Before(f.Until)) &&
		(f.Topic == "" || f.Topic == r.Topic) &&
		(f.Offsets == nil || f.Offsets.First <= r.Offset && r.Offset <= f.Offsets.Last)
}

func among[T comparable](wanted []T, one T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, one)
}
