package schemas

const (
	ruleObject = "must be an object"
	ruleText   = "must be text"
	ruleKey    = "must be text or a whole number"
	ruleOp     = "must be upsert, patch, create or delete"
)

// ProfileEvent reads the canonical form of a profile's change, an object of
//
//	op             upsert (also when missing), patch, create or delete
//	key            object: unique-key attribute to value
//	profileId      the service's id of the profile
//	attributes, subscriptions, segments, dataCollection   objects
//
// where null says the same as leaving a member out. Any other member is an
// error, so that a misspelt one cannot lose data quietly. What the members of
// the four objects hold is not looked at. Errors are *ValueError.
func ProfileEvent(v Value) (Event, error) {
	ev := Event{Op: Upsert}
	if v.Kind() != Object {
		return Event{}, Invalid("", ruleObject)
	}
	for i := range v.Items() {
		name, member := v.Items()[i].Name, v.Items()[i].Value
		var err error
		switch name {
		case "op":
			ev.Op, err = opMember(member)
		case "key":
			ev.Key, err = objectMember(name, member)
		case "profileId":
			ev.ProfileID, err = textMember(name, member)
		case "attributes":
			ev.Attributes, err = objectMember(name, member)
		case "subscriptions":
			ev.Subscriptions, err = objectMember(name, member)
		case "segments":
			ev.Segments, err = objectMember(name, member)
		case "dataCollection":
			ev.DataCollection, err = objectMember(name, member)
		default:
			err = Invalid(name, "is not a member of a profile event")
		}
		if err != nil {
			return Event{}, err
		}
	}
	return ev, nil
}

// RecordEvent reads the canonical form of a table record's change, an object of
// op (as in ProfileEvent), businessKey (text or a whole number) and properties
// (an object). Errors are *ValueError.
func RecordEvent(v Value) (Event, error) {
	ev := Event{Op: Upsert}
	if v.Kind() != Object {
		return Event{}, Invalid("", ruleObject)
	}
	for i := range v.Items() {
		name, member := v.Items()[i].Name, v.Items()[i].Value
		var err error
		switch name {
		case "op":
			ev.Op, err = opMember(member)
		case "businessKey":
			ev.BusinessKey, err = keyMember(name, member)
		case "properties":
			ev.Properties, err = objectMember(name, member)
		default:
			err = Invalid(name, "is not a member of a record event")
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
	return 0, Invalid("op", ruleOp)
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

func textMember(name string, v Value) (string, error) {
	switch v.Kind() {
	case Absent, Null, String:
		return v.Text(), nil
	}
	return "", Invalid(name, ruleText)
}

func keyMember(name string, v Value) (string, error) {
	switch {
	case v.Kind() == Absent, v.Kind() == Null, v.Kind() == String, v.IsWhole():
		return v.Text(), nil
	}
	return "", Invalid(name, ruleKey)
}

// IsWhole reports whether v is a Number written with nothing but digits and a
// sign. Only such a number has one spelling and may serve as a key.
func (v Value) IsWhole() bool {
	if v.kind != Number {
		return false
	}
	for i := range len(v.Text()) {
		if c := v.Text()[i]; c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return v.Text() != "-0"
}
