package sandbox

import "slices"

// A profile table and a custom table may have one name. Such two are told apart by
// their kind wherever a Go function, a Load or the page names a table:
// "profile/contacts" and "custom/contacts". All others go by their names.

// tableName is how the table is named among those of the configuration.
func (c Config) tableName(t Table) string { return c.ofKind(t.Name, t.Custom) }

// ofKind is how the table of the name and kind is named.
func (c Config) ofKind(name string, custom bool) string {
	other := func(t Table) bool { return t.Name == name && t.Custom != custom }
	same := func(t Table) bool { return t.Name == name && t.Custom == custom }
	switch {
	case !slices.ContainsFunc(c.Tables, other) || !slices.ContainsFunc(c.Tables, same):
		return name
	case custom:
		return "custom/" + name
	}
	return "profile/" + name
}
