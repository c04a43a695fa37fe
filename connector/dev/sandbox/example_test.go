package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// A service with one table, on a free port, that loses the answer of the first
// upsert after having applied it.
func Example() {
	service, err := sandbox.New(sandbox.Config{
		Entity:  "acme",
		APIKeys: []string{"key"},
		Tables: []sandbox.Table{{
			Name:   "customers",
			Keys:   []string{"customerNumber"},
			Fields: []sandbox.Field{{Name: "emailAddress", Format: sandbox.Email}},
		}},
		ETLs: []sandbox.ETL{{
			ID:    "101",
			Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer service.Close()
	server, err := service.Start("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	service.Inject(sandbox.Fault{
		Match:  sandbox.Match{Op: 1},
		Count:  1,
		Apply:  true,
		Answer: sandbox.Reset(),
	})

	answer, err := http.Post(server.URL()+"/profiles/v5/entities/acme/profile-tables/customers/profiles",
		"application/json", strings.NewReader("{}"))
	if err != nil {
		fmt.Println("reset")
		return
	}
	fmt.Println(answer.StatusCode, len(service.Rows("customers")), service.CallCount(1))
	// Output: 401 0 1
}
