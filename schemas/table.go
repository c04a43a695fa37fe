package schemas

import "strings"

// The kinds of tables, as Qualified writes them.
const (
	profilePrefix = "profile/"
	customPrefix  = "custom/"
)

// Qualified is the table's name with its kind, "profile/customers": a profile table
// and a custom table may have one name.
func (t Table) Qualified() string {
	if t.Custom {
		return customPrefix + t.Name
	}
	return profilePrefix + t.Name
}

// ParseTable is the table of a qualified name; ok is false for any other name.
func ParseTable(qualified string) (t Table, ok bool) {
	if name, ok := strings.CutPrefix(qualified, profilePrefix); ok {
		return Table{Name: name}, true
	}
	if name, ok := strings.CutPrefix(qualified, customPrefix); ok {
		return Table{Name: name, Custom: true}, true
	}
	return Table{}, false
}
