package sandbox

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Type is an attribute type of the document.
type Type string

// The attribute types.
const (
	String    Type = "String"
	Integer   Type = "Integer"   // -2147483648 to 2147483647
	Number    Type = "Number"    // no exponent, no leading +
	Boolean   Type = "Boolean"   // true or false
	Date      Type = "Date"      // yyyy-MM-dd
	Timestamp Type = "Timestamp" // yyyy-MM-ddThh:mm:ss, with or without Z or an offset
)

// maxString is the length of a String in characters unless its field says
// otherwise.
const maxString = 255

var (
	wholeNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	decimalNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
)

// Errors name the rule and never the value: they end in answers, error files
// and logs.
var (
	errNotString    = reason{"NOT_STRING", "not a string"}
	errNotInteger   = reason{"NOT_INTEGER", "not a whole number from -2147483648 to 2147483647"}
	errNotNumber    = reason{"NOT_NUMBER", "not a number with . as decimal separator"}
	errNotBoolean   = reason{"NOT_BOOLEAN", "not true or false"}
	errNotDate      = reason{"NOT_DATE", "not a date yyyy-MM-dd"}
	errNotTimestamp = reason{"NOT_TIMESTAMP", "not a timestamp yyyy-MM-ddThh:mm:ss"}
	errNotList      = reason{"NOT_LIST", "not an array of values"}
	errNotScalar    = reason{"NOT_SCALAR", "one value is expected, not an array"}
	errNotProperty  = reason{"NOT_PROPERTY", "not a number or a string"}
	errNotOption    = reason{"NOT_SEGMENT", "not a segment of this segmentation"}
	errNotStatus    = reason{"NOT_STATUS", "not a status of the last mail activity"}
	errNotUTF8      = reason{"NOT_TEXT", "not valid text"}
)

// rule is a compiled field: what a value has to look like.
type rule struct {
	Field
	section string   // where it stands in a profile body: "" for attributes, else the object's name
	options []string // of an exclusive segmentation its segments, of lastMailActivityStatus its values
	free    bool     // an unlisted field of an open table: anything goes
}

// fromJSON checks a value as it stands in a profile body and returns what is
// stored: nil, string, bool, json.Number or a list of these.
func (r rule) fromJSON(v any) (any, error) {
	if v == nil || r.free {
		return v, nil
	}
	list, isList := v.([]any)
	if !r.Multi {
		if isList {
			return nil, errNotScalar
		}
		return r.scalar(v)
	}
	if !isList {
		return nil, errNotList
	}
	checked := make([]any, len(list))
	for i, item := range list {
		var err error
		if checked[i], err = r.scalar(item); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// scalar checks one JSON value, which must have the JSON type of its field.
func (r rule) scalar(v any) (any, error) {
	switch v := v.(type) {
	case string:
		if r.Type == Integer || r.Type == Number {
			return nil, r.mismatch()
		}
		if r.Type == Boolean {
			return nil, errNotBoolean
		}
		return r.fromText(v)
	case json.Number:
		if r.Type != Integer && r.Type != Number {
			return nil, r.mismatch()
		}
		return r.fromText(v.String())
	case bool:
		if r.Type != Boolean {
			return nil, r.mismatch()
		}
		return v, nil
	}
	return nil, r.mismatch()
}

// fromProperty checks a value of a custom table's record. It is a number or a
// string on the wire, whatever the type of its field; null, which the document
// does not show, clears the field.
func (r rule) fromProperty(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		if r.free {
			return v, nil
		}
		return r.fromText(v)
	case json.Number:
		if r.free {
			return v, nil
		}
		return r.scalar(v)
	}
	return nil, errNotProperty
}

// fromCell checks a cell of a file. An empty cell is no value. How a list
// stands in a cell is not shown: a JSON array and values separated by | are
// both understood.
func (r rule) fromCell(s string) (any, error) {
	if s == "" {
		return nil, nil
	}
	if !r.Multi || r.free {
		return r.fromText(s)
	}
	var parts []string
	if strings.HasPrefix(s, "[") {
		items, err := decodeList(s)
		if err != nil {
			return nil, errNotList
		}
		for _, item := range items {
			parts = append(parts, textOf(item))
		}
	} else {
		parts = strings.Split(s, "|")
	}
	list := make([]any, len(parts))
	for i, part := range parts {
		var err error
		if list[i], err = r.fromText(part); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// fromText checks a value written as text and gives it its type.
func (r rule) fromText(s string) (any, error) {
	if !utf8.ValidString(s) {
		return nil, errNotUTF8
	}
	if r.free {
		return s, nil
	}
	switch r.Type {
	case Integer:
		if _, err := strconv.ParseInt(s, 10, 32); err != nil || !wholeNumber.MatchString(s) {
			return nil, errNotInteger
		}
		return json.Number(s), nil
	case Number:
		if !decimalNumber.MatchString(s) {
			return nil, errNotNumber
		}
		return json.Number(s), nil
	case Boolean:
		if s != "true" && s != "false" {
			return nil, errNotBoolean
		}
		return s == "true", nil
	case Date:
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return nil, errNotDate
		}
		return s, nil
	case Timestamp:
		return s, checkTimestamp(s)
	}
	return s, r.checkString(s)
}

// checkString checks length, options and standard format.
func (r rule) checkString(s string) error {
	limit := r.MaxLength
	if limit == 0 {
		limit = maxString
	}
	if utf8.RuneCountInString(s) > limit {
		return reason{"TOO_LONG", fmt.Sprintf("longer than %d characters", limit)}
	}
	if r.options != nil && !slices.Contains(r.options, s) {
		if r.section == "" {
			return errNotStatus
		}
		return errNotOption
	}
	return r.Format.check(s)
}

// checkTimestamp wants whole seconds, with nothing, Z or an offset behind.
func checkTimestamp(s string) error {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00"} {
		// time.Parse reads a fraction that the layout does not name.
		if _, err := time.Parse(layout, s); err == nil && !strings.ContainsAny(s, ".,") {
			return nil
		}
	}
	return errNotTimestamp
}

func (r rule) mismatch() error {
	switch r.Type {
	case Integer:
		return errNotInteger
	case Number:
		return errNotNumber
	case Boolean:
		return errNotBoolean
	case Date:
		return errNotDate
	case Timestamp:
		return errNotTimestamp
	}
	return errNotString
}

// decodeList reads a JSON array without losing a digit.
func decodeList(s string) ([]any, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var items []any
	if err := d.Decode(&items); err != nil {
		return nil, err
	}
	return items, nil
}

// textOf is a stored value as one text: a list as its JSON.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	b, err := json.Marshal(v)
	if err != nil { // stored values come from JSON and go back to it
		panic(err)
	}
	return string(b)
}
