package feed

import (
	"encoding/json"
	"math"
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

// Unsaid is the value of a counter that an answer does not carry.
const Unsaid int64 = -1

// Counters are the lines of an import, each Unsaid if the answer does not tell
// it. Their names are not shown in the interface and are matched by meaning.
type Counters struct {
	Read, InError, Inserted, Updated, Deleted int64

	// Raw is what the service wrote, JSON; nil if it wrote none.
	Raw json.RawMessage
}

// Results are what is known of an execution (operation 11).
type Results struct {
	Status   ExecutionStatus
	Error    string // reason of FAILED, at most 500 printable characters
	Counters Counters
}

// parseResults finds status, error and counters at the top of the answer or in
// an object around them.
func parseResults(body []byte) (Results, error) {
	v, err := parse(body)
	if err != nil {
		return Results{}, err
	}
	object, status := statusObject(v, depth)
	if object == nil {
		return Results{}, errNoStatus
	}
	r := Results{
		Status: ExecutionStatus(strings.ToUpper(status)),
		Error:  describe(member(object, "error")),
	}
	r.Counters = countersOf(member(object, "integrationResults"))
	return r, nil
}

func statusObject(v any, left int) (map[string]any, string) {
	object, ok := v.(map[string]any)
	if !ok || left == 0 {
		return nil, ""
	}
	if status := plausible(scalar(member(object, "status"))); status != "" {
		return object, status
	}
	for _, name := range executionNames.around {
		if inner, status := statusObject(member(object, name), left-1); inner != nil {
			return inner, status
		}
	}
	return nil, ""
}

// describe is an error as text, whatever its shape.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return printable(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return printable(string(text))
}

// The meanings of a counter, the first that fits a name counts: "linesInError"
// is an error before it is a line, "linesRead" is told by its last word.
var meanings = []struct {
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
	sum := Counters{Unsaid, Unsaid, Unsaid, Unsaid, Unsaid, nil}
	if v == nil {
		return sum
	}
	sum.Raw, _ = json.Marshal(v)
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, one := range list {
		c := Counters{Unsaid, Unsaid, Unsaid, Unsaid, Unsaid, nil}
		c.match("", one, depth)
		for _, m := range meanings {
			if n := *m.field(&c); n != Unsaid {
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
	for _, m := range meanings {
		for _, word := range m.words {
			if strings.Contains(path, word) {
				field := m.field(c)
				*field = max(*field, n)
				return
			}
		}
	}
}

// add does not overflow: the numbers come from outside.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
