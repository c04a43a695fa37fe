package config_test

import (
	"fmt"

	"github.com/feedsink/feedsink/connector/config"
)

// Every mistake is listed at once, with where it is and what to write instead.
func ExampleParse() {
	const file = `kafka:
  brokers: localhost:9092
  sesionTimeout: 30s
service:
  baseURL: ${SERVICE}
  authURL: http://localhost:8090
  entity: acme
  apiKey: ${API_KEY:-none}
  timeout: 30
mappings:
  - name: customers
    topics: [crm.customers]
    profileTable: customers
    key: customerNumber
    routes: [{lane: immediate}]
`
	_, err := config.Parse("feedsink.yaml", []byte(file), func(string) (string, bool) { return "", false })
	fmt.Println(err)
	// Output:
	// feedsink.yaml: 4 problems
	// feedsink.yaml:2:12: kafka.brokers: must be a list, is a single value; hint: write [localhost:9092]
	// feedsink.yaml:3:3: kafka.sesionTimeout: unknown key; hint: did you mean kafka.sessionTimeout?
	// feedsink.yaml:5:12: service.baseURL: the environment variable SERVICE is not set; hint: set it, or write ${SERVICE:-default}
	// feedsink.yaml:9:12: service.timeout: must be a duration with a unit, is "30"; hint: write 30s for seconds
}
