package schemas

// Op is what an event does to its row.
type Op uint8

// The operations. An Upsert of a profile replaces it whole; a Patch changes
// only what it names, and fails where there is no row; a Merge creates the row if
// there is none, and else changes only what it names; a Create fails where the row
// exists.
const (
	Upsert Op = iota + 1
	Patch
	Create
	Delete
	Merge

	// OpsEnd is above all of them, as the length of an array that has one element for each.
	OpsEnd
)

// Ops are all operations, in the order in which they are listed for people.
var Ops = [...]Op{Upsert, Patch, Merge, Create, Delete}

// OpWords are their words, for messages.
const OpWords = "upsert, patch, merge, create or delete"

// Partial reports whether what the operation does not name stays as it is in the table.
func (o Op) Partial() bool { return o == Patch || o == Merge }

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

var opNames = [...]string{Upsert: "upsert", Patch: "patch", Create: "create", Delete: "delete", Merge: "merge"}

// String is the operation's word in events, configuration and metrics.
func (o Op) String() string {
	if o < Upsert || o >= OpsEnd {
		return "unknown"
	}
	return opNames[o]
}

// ParseOp is the inverse of Op.String; ok is false for any other word.
func ParseOp(s string) (op Op, ok bool) {
	for _, o := range Ops {
		if opNames[o] == s {
			return o, true
		}
	}
	return 0, false
}

const ruleObject = "must be an object"

// ProfileEvent reads the canonical form of a profile's change, an object of
//
//	op             upsert (also when missing), patch, merge, create or delete
//	key            object: unique-key attribute to value
//	profileId      the service's id of the profile
//	attributes, subscriptions, segments, dataCollection   objects
//
// where null says the same as leaving a member out. Any other member is an
// error, so that a misspelt one cannot lose data quietly. What the members of
// the four objects hold is not looked at. Errors are *ValueError.
func ProfileEvent(v Value) (Event, error) { return readEvent(v, "profile") }

// RecordEvent reads the canonical form of a table record's change, an object of
// op (as in ProfileEvent), businessKey (text or a whole number) and properties
// (an object). Errors are *ValueError.
func RecordEvent(v Value) (Event, error) { return readEvent(v, "record") }

func readEvent(v Value, of string) (Event, error) {
	ev := Event{Op: Upsert}
	if v.Kind() != Object {
		return Event{}, Invalid("", ruleObject)
	}
	profile := of == "profile"
	for i := range v.Items() {
		name, member := v.Items()[i].Name, v.Items()[i].Value
		var err error
		switch {
		case name == "op":
			ev.Op, err = opMember(member)
		case profile && name == "key":
			ev.Key, err = objectMember(name, member)
		case profile && name == "profileId":
			ev.ProfileID, err = textMember(name, member, false)
		case profile && name == "attributes":
			ev.Attributes, err = objectMember(name, member)
		case profile && name == "subscriptions":
			ev.Subscriptions, err = objectMember(name, member)
		case profile && name == "segments":
			ev.Segments, err = objectMember(name, member)
		case profile && name == "dataCollection":
			ev.DataCollection, err = objectMember(name, member)
		case !profile && name == "businessKey":
			ev.BusinessKey, err = textMember(name, member, true)
		case !profile && name == "properties":
			ev.Properties, err = objectMember(name, member)
		default:
			err = Invalid(name, "is not a member of a "+of+" event")
		}
		if err != nil {
			return Event{}, err
		}
	}
	return ev, nil
}

func opMember(v Value) (Op, error) {
	switch v.Kind() {
	case Absent, Null:
		return Upsert, nil
	case String:
		if op, ok := ParseOp(v.Text()); ok {
			return op, nil
		}
	}
	return 0, Invalid("op", "must be "+OpWords)
}

func objectMember(name string, v Value) (Value, error) {
	switch v.Kind() {
	case Absent, Null:
		return Value{}, nil
	case Object:
		return v, nil
	}
	return Value{}, Invalid(name, ruleObject)
}

// textMember reads a text; a key may be a whole number, too.
func textMember(name string, v Value, key bool) (string, error) {
	switch {
	case v.Kind() == Absent, v.Kind() == Null, v.Kind() == String, key && v.IsWhole():
		return v.Text(), nil
	case key:
		return "", Invalid(name, "must be text or a whole number")
	}
	return "", Invalid(name, "must be text")
}
