package schemas

import (
	"errors"
	"fmt"
)

// DecodeError says why bytes are not a value. It carries the place and the
// rule, never a byte of the data.
type DecodeError struct {
	Format string // the format that was expected, e.g. "json"
	Offset int64  // bytes read before the place the rule was found broken; negative: no place can be told
	Rule   string // what is wrong, e.g. "a member name appears twice"

	missing bool
}

// ErrSchemaMissing marks the errors of records whose writer schema, or a part
// of it, the registry did not know when it was asked. Decoding the
// same record later may succeed.
var ErrSchemaMissing = errors.New("the registry does not know the schema")

// Unwrap is ErrSchemaMissing where that is the reason.
func (e *DecodeError) Unwrap() error {
	if e.missing {
		return ErrSchemaMissing
	}
	return nil
}

// nowhere is the Offset of a rule that the record breaks as a whole.
const nowhere = -1

// Error reads `json: offset 17: a member name appears twice`.
func (e *DecodeError) Error() string {
	if e.Offset < 0 {
		return e.Format + ": " + e.Rule
	}
	return fmt.Sprintf("%s: offset %d: %s", e.Format, e.Offset, e.Rule)
}

// ValueError says which field of a decoded value breaks which rule. It never
// carries the field's value: it travels in dead letters and logs.
type ValueError struct {
	Field string // path such as "attributes.emailAddress"; "" for the whole value
	Rule  string // what holds for a good value, e.g. "at most 255 characters"
}

// maxFieldPath bounds what a record can put into an error through the names of
// its members, in bytes.
const maxFieldPath = 120

// Invalid builds a ValueError. A field path longer than any real one is cut.
func Invalid(field, rule string) *ValueError {
	if len(field) > maxFieldPath {
		field = field[:maxFieldPath] + "…"
	}
	return &ValueError{Field: field, Rule: rule}
}

// Error reads `attributes.emailAddress: at most 255 characters`.
func (e *ValueError) Error() string {
	if e.Field == "" {
		return e.Rule
	}
	return e.Field + ": " + e.Rule
}
