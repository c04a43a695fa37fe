package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

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
