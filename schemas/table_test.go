package schemas_test

import (
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

func TestQualifiedNamesTellTablesOfOneNameApart(t *testing.T) {
	for want, table := range map[string]schemas.Table{
		"profile/contacts": {Name: "contacts"},
		"custom/contacts":  {Name: "contacts", Custom: true},
		"custom/profile/a": {Name: "profile/a", Custom: true},
	} {
		if got := table.Qualified(); got != want {
			t.Errorf("qualified: got %s, want %s", got, want)
		}
		if got, ok := schemas.ParseTable(want); !ok || got != table {
			t.Errorf("table of %s: got %+v %v, want %+v", want, got, ok, table)
		}
	}
	if got, ok := schemas.ParseTable("contacts"); ok {
		t.Errorf("table of a plain name: got %+v, want none", got)
	}
}
