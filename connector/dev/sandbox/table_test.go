package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
		{"interaction", sandbox.Link{Capability: "Interaction", Cascade: true}, 2},
		{"linked data", sandbox.Link{Capability: "Linked Data", Cascade: true}, 2},
		{"no cascade", sandbox.Link{Capability: "Linked Data"}, 4},
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

func TestProfileTableAndCustomTableMayHaveOneName(t *testing.T) {
	c := config()
	twin := c.Tables[1]
	twin.Name = "customers"
	c.Tables = append(c.Tables, twin)
	for i := range c.ETLs[:4] {
		c.ETLs[i].Loads[0].Table = "profile/customers"
	}
	c.ETLs = append(c.ETLs, sandbox.ETL{ID: "twin", Loads: []sandbox.Load{{Table: "custom/customers", Mode: sandbox.CreateUpdate, GenerateErrorFiles: true}}})
	v := newService(t, c)
	v.profile(`{"attributes":{"customerNumber":"C1"}}`)
	v.must(200, http.MethodPost, strings.Replace(records, "orders", "customers", 1), `{"businessKey":"r1","properties":[{"name":"status","value":"PAID"}]}`)
	v.load("up", "customerNumber,age\nC2,3\n")
	v.load("twin", "businessKey,status\nr2,OPEN\n")
	for table, want := range map[string]int{"profile/customers": 2, "custom/customers": 2, "customers": 0, "orders": 0} {
		if got := v.Len(table); got != want {
			t.Errorf("rows of %s: got %d, want %d", table, got, want)
		}
	}
	for _, table := range []string{"profile/customers", "custom/customers"} {
		if got := v.SlotsUsed(table, time.Now()); got != 1 {
			t.Errorf("imports of %s today: got %d, want 1", table, got)
		}
	}
	v.wantRow("custom/customers", "r2", map[string]string{"businessKey": "r2", "status": "OPEN"})
	c.Tables = append(c.Tables, twin)
	if _, err := sandbox.New(c); err == nil || !strings.Contains(err.Error(), "customers: defined twice") {
		t.Errorf("two custom tables of one name: got %v, want a refusal", err)
	}
}
