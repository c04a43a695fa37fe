package schemas

// Op is what an event does to its row.
type Op uint8

// The operations. An Upsert of a profile replaces it whole; a Patch changes
// only what it names; a Create fails where the row exists.
const (
	Upsert Op = iota + 1
	Patch
	Create
	Delete
)

// Event is a decoded record: what changed, before any mapping. Objects that
// the record does not carry are Absent.
type Event struct {
	Op          Op
	Key         Value  // profiles: object of unique-key attribute to value
	ProfileID   string // profiles: the service's id, "" when the event has none
	BusinessKey string // table records

	Attributes     Value // profiles: name to value
	Subscriptions  Value // profiles: name to bool
	Segments       Value // profiles: name to bool (simple) or segment name (exclusive)
	DataCollection Value // profiles: date, source, way
	Properties     Value // table records: name to value
}

var opNames = [...]string{Upsert: "upsert", Patch: "patch", Create: "create", Delete: "delete"}

// String is the operation's word in events, configuration and metrics.
func (o Op) String() string {
	if o < Upsert || o > Delete {
		return "unknown"
	}
	return opNames[o]
}

// ParseOp is the inverse of Op.String; ok is false for any other word.
func ParseOp(s string) (op Op, ok bool) {
	for o := Upsert; o <= Delete; o++ {
		if opNames[o] == s {
			return o, true
		}
	}
	return 0, false
}
