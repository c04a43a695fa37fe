package schemas

// Lane is the way a write takes to the service.
type Lane uint8

// The two lanes: one API call per write, or a row of a file.
const (
	Immediate Lane = iota + 1
	Batch
)

// Section is the part of a request body a cell belongs to.
type Section uint8

// The sections of a profile body, and the properties of a table record.
const (
	Attributes Section = iota + 1
	Subscriptions
	Segments
	DataCollection
	Properties
)

// Place is where in a write a value belongs: its section, and its technical name
// in the table.
type Place struct {
	Section Section
	Name    string
}

// Cell is one field of a write. Its Place is shared with the cells of other
// writes and never changed: a mapping has a few dozen places, and cells by the
// million, whose size is most of what a waiting write costs.
type Cell struct {
	*Place
	Value Value
}

// Table names the destination of a mapping.
type Table struct {
	Name   string
	Custom bool // a custom table; else a profile table
}

// Write is one intended change of one profile or table record. It owns its
// memory and refers to nothing of the record it came from.
type Write struct {
	Op        Op
	Table     Table
	Key       string // value of the unique-key attribute, or the business key
	ProfileID string // profiles: the service's id where known, needed by patch and delete calls
	Cells     []Cell
}

// String is the lane's word in configuration, group names and metrics.
func (l Lane) String() string {
	switch l {
	case Immediate:
		return "immediate"
	case Batch:
		return "batch"
	}
	return "unknown"
}
