package rowerror

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

var orders = Format{
	Separator: ',', Enclosing: '"', Key: "businessKey",
	Columns: []string{"businessKey", "customerNumber", "total"}, File: "orders.csv", Table: "shop_orders",
}

var items = Format{
	Separator: ';', Enclosing: '"', Key: "businessKey",
	Columns: []string{"businessKey", "total"}, File: "orders-items.csv", Table: "items",
}

// Rows of a bundle's import are told by names of files, by columns, or by a column
// that names the file; where nothing tells, all that it may be are said.
func TestRowsOfABundleAreToldApart(t *testing.T) {
	clients := customers
	clients.File, clients.Table = "clients.csv", "crm_customers"
	formats := []Format{clients, orders, items}
	for _, tc := range []struct {
		name    string
		content []byte
		want    []string // formats, key
	}{
		{"by the names of entries", zipped(t,
			"clients-error.csv", "customerNumber,error\nC1,bad\n",
			"out/orders-error.csv", "businessKey,error\nO1,bad\n",
			"orders-items-error.csv", "businessKey;error\nI1;bad\n",
		), []string{"[0] C1", "[1] O1", "[2] I1"}},
		{"by the names of tables", zipped(t, "errors_shop_orders.csv", "businessKey,error\nO1,bad\n"), []string{"[1] O1"}},
		{"by the key", []byte("customerNumber,error\nC1,bad\n"), []string{"[0] C1"}},
		{"by all columns", []byte("businessKey,customerNumber,total,error\nO1,C1,3,bad\n"), []string{"[1] O1"}},
		{"by the separator too", []byte("businessKey;total;error\nI1;3;bad\n"), []string{"[2] I1"}},
		{"by fewer columns", []byte("businessKey,customerNumber,error\nO1,C1,bad\n"), []string{"[1] O1"}},
		{"by a column", []byte("fileName,businessKey,error\norders-items.csv,I1,bad\norders.csv,O1,bad\nother.csv,X1,bad\n"), []string{"[2] I1", "[1] O1", "[1 2] X1"}},
		{"not by words of a reason", []byte("businessKey,error\nO1,orders.csv\n"), []string{"[1 2] O1"}},
		{"by nothing", []byte("line,error\n7,bad\n"), []string{"[0 1 2] "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			err := Read(bytes.NewReader(tc.content), formats, func(r Row) error {
				got = append(got, fmt.Sprint(r.Of, " ", r.Key))
				return nil
			})
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
