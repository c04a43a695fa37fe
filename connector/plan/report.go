package plan

import (
	"time"

	"github.com/feedsink/feedsink/connector/config"
)

// Report is what the sample tells.
type Report struct {
	Topics      []Topic   `json:"topics"`
	Mappings    []Mapping `json:"mappings"`
	DeadLetters []Group   `json:"deadLetters"` // by how often, most first
	// BeforeRun is what a sink would refuse to start with, though a plan does not need
	// it: ETLs that do not fit, or may erase what a row leaves empty.
	BeforeRun []config.Problem `json:"beforeRun,omitempty"`
}

// Topic is what was read of a topic.
type Topic struct {
	Name       string    `json:"name"`
	Partitions int       `json:"partitions"`
	Stored     int64     `json:"stored"`  // offsets in its log, gaps counted
	Sampled    int64     `json:"sampled"` // records
	First      time.Time `json:"first,omitzero"`
	Last       time.Time `json:"last,omitzero"`
}

// Mapping is what becomes of a mapping's records.
type Mapping struct {
	Name        string `json:"name"`
	Table       string `json:"table"`
	Bundle      string `json:"bundle,omitempty"` // whose files are one: Files.Day is all of its mappings' together
	Records     int64  `json:"records"`
	DeadLetters int64  `json:"deadLetters"`
	Seconds     int64  `json:"seconds"` // that the sample spans; what is a day's is extrapolated from them
	Calls       *Calls `json:"calls,omitempty"`
	Files       *Files `json:"files,omitempty"`
}

// Calls are a mapping's writes by calls.
type Calls struct {
	Writes     int64            `json:"writes"`
	Calls      int64            `json:"calls"` // writes of a key within a second count as merged
	ByOp       map[string]int64 `json:"byOp"`
	PerDay     int64            `json:"perDay,omitempty"`     // 0: the sample is too short to tell
	PeakMinute int64            `json:"peakMinute"`           // calls in the busiest minute
	PeakRate   int64            `json:"peakRate,omitempty"`   // calls in the busiest service.rate.per
	RateLimit  int64            `json:"rateLimit,omitempty"`  // service.rate.calls; 0: none
	RateTooLow bool             `json:"rateTooLow,omitempty"` // the busiest span has more: calls would wait
	Requests   []Request        `json:"requests,omitempty"`
}

// Request is one call as it would be sent, without its token.
type Request struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   string `json:"body,omitempty"`
}

// Files are a mapping's writes by files.
type Files struct {
	Writes   int64            `json:"writes"`
	Rows     int64            `json:"rows"`  // of the sample as one file, the writes of a key merged
	Bytes    int64            `json:"bytes"` // of those, uncompressed
	ByOp     map[string]int64 `json:"byOp"`  // rows
	Day      *Day             `json:"day,omitempty"`
	CSV      []CSV            `json:"csv,omitempty"`
	distinct int
}

// Day is a day's imports, if all days were as the sample.
type Day struct {
	Rows    int64  `json:"rows"`    // at most: a key that comes back merges into its row
	Files   int64  `json:"files"`   // rolled by the first limit that is reached
	Imports int64  `json:"imports"` // one for each op of a file
	Limit   string `json:"limit"`   // roll.age, roll.rows or roll.bytes
	Slots   int    `json:"slots"`   // that files may use: slotsPerDay less reserve
	// TooMany says that the day would want more imports than it has. The sink then
	// lets files grow: they go out about Every.
	TooMany bool          `json:"tooMany"`
	Every   time.Duration `json:"every"`
}

// CSV is the beginning of a file.
type CSV struct {
	Op    string   `json:"op"`
	Lines []string `json:"lines"`
}

// Group is dead letters of one reason.
type Group struct {
	Mapping string   `json:"mapping,omitempty"` // "": it cannot be decoded, so nobody's
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Count   int64    `json:"count"`
	Where   []string `json:"where"` // the first ones: topic[partition]@offset
}
