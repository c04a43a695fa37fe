package ops

import (
	"testing"

	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestForgetProposesCommandsThatWorkAsTheyStand(t *testing.T) {
	orders, customers := schemas.Table{Name: "orders", Custom: true}, schemas.Table{Name: "customers"}
	for _, c := range []struct {
		table     schemas.Table
		key, file string
		want      string
	}{
		{orders, "o1", "", "feedsink record delete --table orders o1"},
		{orders, "--flag", "", "feedsink record delete --table orders -- '--flag'"},
		{orders, "o 1", "my sink.yaml", "feedsink record delete -c 'my sink.yaml' --table orders 'o 1'"},
		{orders, "-1", "sink.yaml", "feedsink record delete -c sink.yaml --table orders -- '-1'"},
		{orders, "..", "sink.yaml", "feedsink import -c sink.yaml --mapping of-table --op delete FILE.csv, of a file with the key: no call can name it"},
		{customers, "--flag", "sink.yaml", "feedsink profile delete -c sink.yaml --table customers ID, with the service's id of the profile"},
	} {
		mapping := &router.Compiled{Table: c.table}
		mapping.Name = "of-table"
		f := forgetting{ForgetOptions: ForgetOptions{Key: c.key, ConfigFile: c.file}, mapping: mapping}
		if got := f.table(&why.Key{Newest: -1}).Do; len(got) == 0 || got[0] != c.want {
			t.Errorf("%s: got %q, want %q", c.key, got, c.want)
		}
	}
}
