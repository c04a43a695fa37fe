package values

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// Target is a field of the table, as far as its values are checked. Of the types of
// the table's fields only those are known that `types` names: the others the
// service decides.
type Target struct {
	schemas.Place
	computed computed
	typed    *Converter    // nil: nothing is known
	anyText  bool          // any text of the usual length will do
	null     schemas.Value // what is written in the place of null; Absent: null itself
}

// NewTarget returns the target at a place; typed is what is known of an attribute's or
// property's type, nil for nothing.
func NewTarget(at schemas.Place, typed *Converter) Target {
	t := Target{Place: at}
	switch at.Section {
	case schemas.Attributes:
		t.computed, t.typed = computedBy(at.Name), typed
		t.anyText = t.computed == notComputed && typed == nil && at.Name != ""
	case schemas.Properties:
		t.typed = typed
		t.anyText = typed == nil && at.Name != ""
	}
	return t
}

// ParsePlace reads the name of a table's field as columns and fields write it. For
// profiles: an attribute's technical name, subscriptions#NAME, S_NAME for a
// segmentation, and dataCollection.date, .source and .way. For custom tables:
// businessKey, or a property's technical name.
func ParsePlace(table schemas.Table, text string) (schemas.Place, error) {
	if text == "" {
		return schemas.Place{}, errors.New("missing")
	}
	subscription, isSubscription := strings.CutPrefix(text, "subscriptions#")
	if table.Custom {
		if isSubscription {
			return schemas.Place{}, fmt.Errorf("%q: a custom table has no subscriptions", text)
		}
		return schemas.Place{Section: schemas.Properties, Name: text}, nil
	}
	place := schemas.Place{Section: schemas.Attributes, Name: text}
	if isSubscription {
		place = schemas.Place{Section: schemas.Subscriptions, Name: subscription}
	} else if segmentation, ok := strings.CutPrefix(text, "S_"); ok {
		place = schemas.Place{Section: schemas.Segments, Name: segmentation}
	} else if member, ok := strings.CutPrefix(text, "dataCollection."); ok {
		if member != "date" && member != "source" && member != "way" {
			return schemas.Place{}, fmt.Errorf("%q: dataCollection has date, source and way", text)
		}
		place = schemas.Place{Section: schemas.DataCollection, Name: member}
	}
	if place.Name == "" {
		return schemas.Place{}, fmt.Errorf("%q: the name is missing", text)
	}
	return place, nil
}

// Computed reports whether the service computes the target: only an import that
// creates profiles may supply it.
func (t *Target) Computed() bool { return t.computed != notComputed }

// NeverNull reports whether what is at the place takes no null.
func NeverNull(at schemas.Place) bool {
	return at.Section == schemas.Subscriptions || at.Section == schemas.Segments
}

// WriteForNull has v, which the target takes, written in the place of null.
func (t *Target) WriteForNull(v schemas.Value) { t.null = v }

// Typed reports whether anything is known of the target's type.
func (t *Target) Typed() bool { return t.typed != nil }

// Converts reports whether the target's type may write a value in another way.
func (t *Target) Converts() bool { return t.typed != nil && t.typed.convert != nil }

// TakesAnyText reports whether text of up to MaxText needs no other check.
func (t *Target) TakesAnyText() bool { return t.anyText }

// Check checks one value of a write against what the target takes and returns it as
// it is sent, or the rule that it breaks.
func (t *Target) Check(v schemas.Value, op schemas.Op) (out schemas.Value, rule string) {
	if t.anyText && v.Kind() == schemas.String && len(v.Text()) <= MaxText {
		return v, ""
	}
	if t.Name == "" {
		return schemas.Value{}, "must have a name"
	}
	if v.Kind() == schemas.Null && t.null.Kind() != schemas.Absent && (t.computed == notComputed || op == schemas.Create) {
		return t.null, ""
	}
	switch t.Section {
	case schemas.Attributes:
		if t.computed != notComputed {
			return checkComputed(t.computed, v, op)
		}
		return attribute(v, t.typed)
	case schemas.Subscriptions:
		if v.Kind() != schemas.Bool {
			return schemas.Value{}, ruleBoolean
		}
		return v, ""
	case schemas.Segments:
		return segment(v)
	case schemas.DataCollection:
		return collection(t.Name, v)
	default:
		return property(v, t.typed)
	}
}

// Constant is a value of the configuration as the target takes it; convert, which
// may be nil, is the conversion of the target's values.
func (t *Target) Constant(v schemas.Value, convert *Converter) (out schemas.Value, rule string) {
	if convert != nil && convert.convert != nil && v.Kind() != schemas.Null {
		if v, rule = convert.ofConstant().Convert(v); rule != "" {
			return v, rule
		}
	}
	if t.Name == "" {
		return v, ""
	}
	return t.Check(v, schemas.Create) // as created: of what is computed only the value is checked
}

// Literal is Constant for a column's `absent` or `null`: text, of which the target's
// section, its conversion or else its type says what it means.
func (t *Target) Literal(text string, convert *Converter) (v schemas.Value, rule string) {
	v = schemas.StringValue(text)
	switch {
	case t.Section == schemas.Subscriptions:
		return asBoolean(v, nil)
	case convert == nil:
		convert = t.typed
	}
	if convert != nil && convert.list && strings.HasPrefix(text, "[") {
		items, err := schemas.NewJSON().Decode([]byte(text))
		if err != nil {
			return v, "must be a list such as [\"a\",\"b\"], or one element of it"
		}
		v = items
	}
	return t.Constant(v, convert)
}

// attribute takes scalars, lists of scalars, and null.
func attribute(v schemas.Value, typed *Converter) (schemas.Value, string) {
	switch {
	case v.Kind() == schemas.Null:
		return v, ""
	case typed != nil && typed.convert != nil:
		return typed.Convert(v)
	case v.Kind() == schemas.List:
		return elements(v, typed)
	}
	v, rule := scalar(v, typed)
	if rule == ruleScalar {
		rule = "must be text, a number, true, false or a list of them"
	}
	return v, rule
}

// segment takes a boolean (simple segmentation), its word, which a cell cannot tell from
// it, or a segment's name.
func segment(v schemas.Value) (schemas.Value, string) {
	const rule = "must be true, false or the name of a segment"
	switch {
	case v.Kind() == schemas.Bool:
		return v, ""
	case v.Kind() != schemas.String:
		return schemas.Value{}, rule
	case v.Text() == "":
		return schemas.Value{}, rule + ", not an empty text"
	case v.Text() == "true", v.Text() == "false":
		return schemas.BoolValue(v.Text() == "true"), ""
	}
	return (*Converter)(nil).bounded(v)
}

// collection takes the members of dataCollection. Null says nothing about the
// consent, so it is the same as leaving the member out: Absent.
func collection(name string, v schemas.Value) (schemas.Value, string) {
	if v.Kind() == schemas.Null {
		return schemas.Value{}, ""
	}
	switch name {
	case "date":
		if v.Kind() == schemas.String {
			if s, ok := timestamp(v.Text()); ok && len(s) > len(localTime) {
				return schemas.StringValue(s), ""
			}
		}
		return schemas.Value{}, "must be a timestamp like 2006-01-02T15:04:05 with Z or an offset"
	case "source", "way":
		if v.Kind() != schemas.String {
			return schemas.Value{}, ruleText
		}
		return scalar(v, nil)
	}
	return schemas.Value{}, "is not a member of dataCollection"
}

// property takes what a table record's property can be: a number or text, and
// null. A boolean becomes the text true or false, the only way the interface
// leaves to write one.
func property(v schemas.Value, typed *Converter) (out schemas.Value, rule string) {
	if v.Kind() == schemas.Null {
		return v, ""
	}
	if typed != nil && typed.convert != nil {
		out, rule = typed.Convert(v)
	} else if out, rule = scalar(v, typed); rule == ruleScalar {
		rule = "must be a number, text, true or false"
	}
	if out.Kind() == schemas.Bool {
		out = schemas.StringValue(out.Text())
	}
	return out, rule
}

// Key is the text of a key, as the target takes it: text or a whole number, which has one
// spelling. The zero Target is that of a key of which nothing is known.
func (t *Target) Key(v schemas.Value) (text, rule string) {
	if t.Converts() {
		if v, rule = t.typed.Convert(v); rule != "" {
			return "", rule
		}
	}
	switch {
	case v.Kind() != schemas.String && !v.IsWhole():
		return "", "must be text or a whole number"
	case v.Text() == "":
		return "", "must not be empty"
	}
	_, rule = t.typed.bounded(v)
	return v.Text(), rule
}

// computed is what an attribute holds that the service computes: one of the
// technical (recency) attributes of the interface's document.
type computed uint8

const (
	notComputed computed = iota
	computedTimestamp
	computedText
	computedStatus
)

// computedBy tells the attributes that the service computes from a profile's
// interactions from all others.
func computedBy(name string) computed {
	switch name {
	case "lastMailOpeningMoment", "lastMailClickMoment", "lastMailTargetingMoment", "mobileTargetingRecency",
		"mobileDeliveryRecency", "goalReachedRecency", "participationRecency", "blacklistMoment":
		return computedTimestamp
	case "lastDevice", "lastUserAgent":
		return computedText
	case "lastMailActivityStatus":
		return computedStatus
	}
	return notComputed
}

var mailActivityStatuses = []string{
	"SENT", "OPENED", "CLICKED", "ERROR", "FILTERED_NO_EMAIL_ADDRESS", "FILTERED_INVALID_EMAIL_ADDRESS",
	"FILTERED_DUPLICATE_EMAIL_ADDRESS", "FILTERED_EMAIL_SCORE_TOO_LOW", "FILTERED_BLACKLISTED_BY_RECIPIENT",
	"FILTERED_LONG_QUARANTINE", "FILTERED_TEMPORARY_QUARANTINE", "FILTERED_LOW_EMAIL_ACTIVITY",
	"FILTERED_CATCH_ALL_DOMAIN", "FILTERED_COMMERCIAL_PRESSURE", "FILTERED_OTHER", "BOUNCED_HARD_BOUNCE",
	"BOUNCED_SOFT_BOUNCE", "BOUNCED_AUTO_REPLY",
}

const (
	// RuleComputed is the rule of a Computed target.
	RuleComputed = "is computed by the service and may be given only with op create"
	ruleStatus   = "must be one of the service's mail activity statuses, such as SENT"
)

// checkComputed checks an attribute that the service computes. Only an import that
// creates profiles (mode CREATE_ONLY) may supply one, and those are the rows of op
// create.
func checkComputed(kind computed, v schemas.Value, op schemas.Op) (out schemas.Value, rule string) {
	switch {
	case op != schemas.Create:
		return schemas.Value{}, RuleComputed
	case v.Kind() == schemas.Null:
		return v, ""
	case kind == computedTimestamp:
		return asTimestamp(v, nil)
	case v.Kind() != schemas.String:
		return schemas.Value{}, ruleText
	case kind == computedStatus && !slices.Contains(mailActivityStatuses, v.Text()):
		return schemas.Value{}, ruleStatus
	}
	return (*Converter)(nil).bounded(v)
}
