package ops_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/samples"
)

func forSamples(t *testing.T, path string) *config.Config {
	t.Helper()
	file, err := config.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := file.ForSamples(os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The end-to-end tests run the sink on the same files, so that both agree.
func TestEachExampleIsAsItsSamplesExpect(t *testing.T) {
	files, err := filepath.Glob("../../deploy/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	t.Setenv("FEEDSINK_SECRETS", t.TempDir()) // which has none
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg := forSamples(t, file)
			text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "samples", filepath.Base(file)))
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, cfg, string(text))
			for _, d := range got.Differences {
				t.Error(d)
			}
		})
	}
}

func TestServiceHoldsWhatEachExampleNeeds(t *testing.T) {
	for file, want := range map[string]string{
		"bundle":     "customers orders; 301: customers CREATE_OR_UPDATE, orders CREATE_OR_UPDATE; 102: customers DELETE",
		"two-lanes":  "customers orders; 101: customers CREATE_OR_UPDATE; 102: customers DELETE",
		"minimal":    "customers orders",
		"production": "contacts; 201: contacts CREATE_OR_UPDATE; 202: contacts DELETE",
	} {
		c, err := ops.Service(forSamples(t, "../../deploy/examples/"+file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var tables []string
		for _, table := range c.Tables {
			tables = append(tables, table.Name)
		}
		got := strings.Join(tables, " ")
		for _, etl := range c.ETLs {
			var loads []string
			for _, l := range etl.Loads {
				loads = append(loads, l.Table+" "+string(l.Mode))
			}
			got += "; " + etl.ID + ": " + strings.Join(loads, ", ")
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
		service, err := sandbox.New(sandbox.Config{Entity: c.Entity, APIKeys: []string{"key"}, Tables: c.Tables, ETLs: c.ETLs})
		if err != nil {
			t.Errorf("%s: got %v, want a service", file, err)
			continue
		}
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	}
}

func run(t *testing.T, cfg *config.Config, text string) ops.Tested {
	t.Helper()
	s, err := samples.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ops.Test(t.Context(), cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

const tested = `
kafka: {brokers: ["127.0.0.1:1"]}
service: {baseURL: "http://127.0.0.1:1", authURL: "http://127.0.0.1:1", entity: acme, apiKey: "${NOT_SET}"}
mappings:
  - name: customers
    topics: [crm]
    profileTable: customers
    key: number
    routes: [{when: 'op == "upsert" && segments.tier == "gold"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {mode: CREATE_OR_UPDATE}
      patch: {mode: UPDATE_ONLY}
      delete: {mode: DELETE}
      columns: [number, mail, S_tier]
      csv: {encoding: ISO-8859-1, separator: ";"}
  - name: orders
    topics: [shop]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
`

func testedConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.File{Name: "feedsink.yaml", Data: []byte(tested)}.ForSamples(func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const tables = `
tables:
  customers: {keys: [number], fields: {number: String, mail: String}, segments: {tier: [gold, basic]}}
  orders: {custom: true, fields: {total: Number}}
events:
`

func TestSamplesKeepTheOrderOfBothLanes(t *testing.T) {
	got := run(t, testedConfig(t), tables+`
  - {topic: crm, value: {op: upsert, key: {number: C1}, attributes: {mail: "é;1"}, segments: {tier: basic}}}
  - {topic: crm, value: {op: upsert, key: {number: C1}, attributes: {mail: b}, segments: {tier: gold}}}
  - {topic: crm, value: {op: patch, key: {number: C1}, attributes: {mail: c}}}
  - {topic: crm, value: {op: upsert, key: {number: C2}, attributes: {mail: "é;2"}}}
  - {topic: crm, value: {op: delete, key: {number: C9}}}
  - {topic: shop, key: O9}
rows:
  customers:
    C1: {number: C1, mail: c, S_tier: gold}
    C2: {number: C2, mail: "é;2"}
byFile: {customers: [C1, C2, C9]}
`)
	if len(got.Differences) > 0 {
		t.Errorf("got %v, want no difference", got.Differences)
	}
}

func TestSamplesTellWhyAnEventIsADeadLetter(t *testing.T) {
	got := run(t, testedConfig(t), tables+`
  - {topic: crm, value: {op: patch, key: {number: C1}, attributes: {mail: a}}}
  - {topic: crm, value: {op: upsert, key: {number: C1}, attributes: {mail: 漢}}}
  - {topic: crm, value: {op: upsert, key: {}}}
  - {topic: shop, value: {op: patch, businessKey: O1, properties: {total: 1}}}
  - {topic: shop, value: {op: upsert, businessKey: O1, properties: {total: nothing}}}
`)
	var reasons []string
	for i, l := range got.DeadLetters {
		reasons = append(reasons, l.Mapping+" "+l.Reason)
		if l.Event != i+1 || l.Message == "" {
			t.Errorf("got event %d, %q, want event %d and why", l.Event, l.Message, i+1)
		}
	}
	want := []string{"customers import_row", "customers value", "customers value", "orders not_found", "orders rejected"}
	if !slices.Equal(reasons, want) {
		t.Errorf("got %q, want %q", reasons, want)
	}
	if d := got.Differences; len(d) != 1 || d[0].Where != "deadLetters" {
		t.Errorf("got %v, want that the dead letters differ", d)
	}
}

func TestSamplesThatDoNotFitAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		tables + "  - {topic: nowhere}":                            `no mapping reads the topic "nowhere"`,
		"tables: {orders: {custom: true}}\nevents: [{topic: crm}]": "define the profile table customers, which mapping customers writes",
		"tables: {customers: {}}\nevents: [{topic: crm}]":          "needs a unique-key attribute",
	} {
		s, err := samples.Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ops.Test(t.Context(), testedConfig(t), s)
		if _, ok := errors.AsType[*ops.SampleError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want a *SampleError that says %q", text, err, want)
		}
	}
}
