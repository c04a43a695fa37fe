package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// visits is a custom table tied to customers.
func visits(link sandbox.Link) sandbox.Config {
	c := config()
	link.Table, link.Attribute, link.Property = "customers", "customerNumber", "customer"
	c.Tables = append(c.Tables, sandbox.Table{
		Name: "visits", Custom: true, Fields: []sandbox.Field{{Name: "customer"}}, Link: link,
	})
	return c
}

func TestDeletingAProfileDeletesItsLinkedRecords(t *testing.T) {
	for _, c := range []struct {
		name string
		link sandbox.Link
		left int
	}{
		{"interaction", sandbox.Link{Capability: sandbox.Interaction, Cascade: true}, 2},
		{"linked data", sandbox.Link{Capability: sandbox.LinkedData, Cascade: true}, 2},
		{"no cascade", sandbox.Link{Capability: sandbox.LinkedData}, 4},
		{"no capability", sandbox.Link{}, 4},
	} {
		for _, how := range []string{"call", "import"} {
			v := newService(t, visits(c.link))
			id := v.profile(`{"attributes":{"customerNumber":"C1"}}`)
			v.profile(`{"attributes":{"customerNumber":"C2"}}`)
			// v3 goes to the other customer before, v4 comes from it.
			for i, customer := range []string{"C1", "C2", "C1", "C2"} {
				v.visit(i+1, customer)
			}
			v.visit(3, "C2")
			v.visit(4, "C1")
			if how == "call" {
				v.must(204, http.MethodDelete, profiles+"/"+id, "")
			} else if e := v.load("drop", "customerNumber\nC1\n"); e.Results.Deleted != 1 {
				t.Errorf("%s by %s: got %+v, want one row deleted", c.name, how, e.Results)
			}
			if got := v.Len("visits"); got != c.left {
				t.Errorf("%s by %s: got %d visits left, want %d", c.name, how, got, c.left)
			}
			for key, linked := range map[string]bool{"v1": true, "v2": false, "v3": false, "v4": true} {
				if _, there := v.Row("visits", key); there == (linked && c.left == 2) {
					t.Errorf("%s by %s: %s is there: %t", c.name, how, key, there)
				}
			}
		}
	}
}

// visit writes a record of visits.
func (v *service) visit(n int, customer string) {
	v.t.Helper()
	v.must(200, http.MethodPost, strings.Replace(upsert, "orders", "visits", 1),
		fmt.Sprintf(`{"businessKey":"v%d","properties":[{"name":"customer","value":"%s"}]}`, n, customer))
}

func TestLinksThatCannotWorkAreRefused(t *testing.T) {
	for want, link := range map[string]sandbox.Link{
		`table orders: link: no profile table "nobody"`:                                 {Table: "nobody"},
		`table orders: link: no profile table "orders"`:                                 {Table: "orders"},
		`table orders: link: "age" is not a unique key of table customers`:              {Table: "customers", Attribute: "age"},
		`table orders: link: a property is needed`:                                      {Table: "customers", Attribute: "customerNumber"},
		`table orders: link: a cascade wants the capability Interaction or Linked Data`: {Table: "customers", Attribute: "customerNumber", Property: "status", Cascade: true},
	} {
		c := config()
		c.Tables[1].Link = link
		if _, err := sandbox.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
