package service

import (
	"encoding/json"
	"strconv"
	"strings"
)

// ExecutionStatus is the state of an execution, in upper case. The interface
// names three; any other is one that has not ended.
type ExecutionStatus string

// The states of the interface.
const (
	InProgress ExecutionStatus = "IN_PROGRESS"
	Finished   ExecutionStatus = "FINISHED"
	Failed     ExecutionStatus = "FAILED"
)

// Ended reports whether the status will not change any more.
func (s ExecutionStatus) Ended() bool { return s == Finished || s == Failed }

// Unknown is the value of a counter that an answer does not carry.
const Unknown int64 = -1

// Counters are the lines of an import, each Unsaid if the answer does not tell
// it. Their names are not shown in the interface and are matched by meaning.
type Counters struct {
	Read, InError, Inserted, Updated, Deleted int64

	// Raw is what the service wrote, JSON; nil if it wrote none.
	Raw json.RawMessage
}

// Results are what is known of an execution (operation 11).
type Results struct {
	Status ExecutionStatus
	// Error is the service's reason of FAILED, at most 500 printable characters. It
	// may quote customers' values and belongs into no log.
	Error    string
	Counters Counters
}

// Cause is what of Error may be said anywhere, "" if that is nothing.
func (r Results) Cause() string { return plainly(r.Error) }

// The meanings of a counter, the first that fits a name counts: "linesInError"
// is an error before it is a line, "linesRead" is told by its last word.
var counterNames = []struct {
	words []string
	field func(*Counters) *int64
}{
	{[]string{"error", "reject", "invalid", "fail"}, func(c *Counters) *int64 { return &c.InError }},
	{[]string{"insert", "creat", "added"}, func(c *Counters) *int64 { return &c.Inserted }},
	{[]string{"updat", "modif"}, func(c *Counters) *int64 { return &c.Updated }},
	{[]string{"delet", "remov"}, func(c *Counters) *int64 { return &c.Deleted }},
	{[]string{"read", "total", "processed", "received"}, func(c *Counters) *int64 { return &c.Read }},
}

// countersOf matches the counters of one object, or the sums over a list: one
// object for each file of a bundle.
func countersOf(v any) Counters {
	sum := Counters{Unknown, Unknown, Unknown, Unknown, Unknown, nil}
	if v == nil {
		return sum
	}
	sum.Raw, _ = json.Marshal(v)
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		c := Counters{Unknown, Unknown, Unknown, Unknown, Unknown, nil}
		c.match("", one, depth)
		for _, m := range counterNames {
			if n := *m.field(&c); n != Unknown {
				total := m.field(&sum)
				*total = add(max(*total, 0), n)
			}
		}
	}
	return sum
}

// match walks into nested objects with the path as the name: lines.read. Of
// several counters of one meaning (total and read) the greatest holds.
func (c *Counters) match(path string, v any, left int) {
	if object, ok := v.(map[string]any); ok && left > 0 {
		for name, inner := range object {
			c.match(path+plain(name), inner, left-1)
		}
		return
	}
	n, err := strconv.ParseInt(scalar(v), 10, 64)
	if err != nil || n < 0 {
		return
	}
	for _, m := range counterNames {
		for _, word := range m.words {
			if strings.Contains(path, word) {
				field := m.field(c)
				*field = max(*field, n)
				return
			}
		}
	}
}
