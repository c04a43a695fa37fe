package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/router"
)

// environment is a lookup in fixed variables.
func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// base is the shortest file that can work; tests add to it or spoil it.
const base = `kafka:
  brokers: [localhost:9092]
service:
  baseURL: http://localhost:8090
  authURL: http://localhost:8090
  entity: acme
  apiKey: key
mappings:
  - name: customers
    topics: [crm.customers]
    profileTable: customers
    key: customerNumber
    routes: [{lane: immediate}]
`

func parse(t *testing.T, data string, env ...string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("feedsink.yaml", []byte(data), environment(env...))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return cfg
}

func TestParseReadsEveryKeyOfAWholeFile(t *testing.T) {
	cfg, err := config.Load(filepath.Join("testdata", "whole.yaml"), environment("FEEDSINK_API_KEY", "s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Service.APIKey.Reveal(); got != "s3cret" {
		t.Errorf("api key: got %q, want s3cret", got)
	}
	got := cfg.Mappings[0]
	want := router.Mapping{
		Name: "customers", Topics: []string{"crm.customers"}, Format: "json", Envelope: "none",
		ProfileTable: "customers", Key: "customerNumber", UnchangedFor: 24 * time.Hour,
		Routes: []router.Route{{When: `segments.tier == "gold"`, Lane: "immediate"}, {Lane: "batch"}},
		Imports: router.Imports{
			Upsert: &router.Import{ETL: "101", Mode: "CREATE_OR_UPDATE"},
			Delete: &router.Import{ETL: "102", Mode: "DELETE"},
			Columns: []router.Column{
				{Name: "customerNumber"},
				{Name: "emailAddress"},
				{Name: "subscriptions#newsletter"},
				{Name: "S_tier", Absent: "empty", Null: "none"},
			},
			CSV:         router.CSV{Separator: ",", Enclosing: `"`, Encoding: "UTF-8", Compression: "GZIP"},
			Roll:        router.Roll{Rows: 500_000, Bytes: 256 << 20, Age: 2 * time.Hour, At: []string{"06:30"}},
			MaxFile:     router.MaxFile{Rows: 900_000, Bytes: 100 << 20},
			SlotsPerDay: 12, Reserve: 2, RetryFailed: 1, Timezone: "UTC",
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("mapping\n got %+v\nwant %+v", got, want)
	}
	if got, want := cfg.Mappings[1].Fields[1], (router.Field{From: "total_cents", To: "orderTotal", As: "number", Scale: -2}); !reflect.DeepEqual(got, want) {
		t.Errorf("field: got %+v, want %+v", got, want)
	}
}

func TestWholeFileSaysOnlyTheDefaults(t *testing.T) {
	whole, err := config.Load(filepath.Join("testdata", "whole.yaml"), environment("FEEDSINK_API_KEY", "key"))
	if err != nil {
		t.Fatal(err)
	}
	least := parse(t, base+"dlq: {topic: feedsink.dlq}\n")
	whole.Mappings, least.Mappings = nil, nil
	if !reflect.DeepEqual(whole, least) {
		t.Errorf("got  %+v\nwant %+v", least, whole)
	}
}

func TestParseKeepsZeroWhereTheFileSaysZero(t *testing.T) {
	said := parse(t, base+"    imports: {retryFailed: 0, reserve: 0}\n").Mappings[0].Imports
	if said.RetryFailed != 0 || said.Reserve != 0 {
		t.Errorf("retryFailed, reserve: got %d, %d, want 0, 0", said.RetryFailed, said.Reserve)
	}
	unsaid := parse(t, base).Mappings[0].Imports
	if unsaid.RetryFailed != 1 || unsaid.Reserve != 2 {
		t.Errorf("retryFailed, reserve: got %d, %d, want 1, 2", unsaid.RetryFailed, unsaid.Reserve)
	}
}

func TestAVariableMayHoldSeveralBrokers(t *testing.T) {
	for _, written := range []string{`["${BR}"]`, `["a:1, ${LAST}"]`, `["a:1", "${LAST}"]`} {
		cfg := parse(t, strings.Replace(base, "[localhost:9092]", written, 1), "BR", "a:1,b:2", "LAST", "b:2")
		if got, want := strings.Join(cfg.Kafka.Brokers, " "), "a:1 b:2"; got != want {
			t.Errorf("%s: got %q, want %q", written, got, want)
		}
	}
	found := problems(t, strings.Replace(base, "[localhost:9092]", `["a:1,,b:2"]`, 1))
	if len(found) != 1 || found[0].Path != "kafka.brokers[0]" {
		t.Errorf("one that is empty: got %v, want one problem", found)
	}
}

func TestAKeyMayEndWithALineFeed(t *testing.T) {
	text := strings.Replace(base, "apiKey: key", "apiKey: ${KEY}", 1)
	if got := parse(t, text, "KEY", "s3cret\n").Service.APIKey.Reveal(); got != "s3cret" {
		t.Errorf("got %q, want it without the line feed", got)
	}
}

// TestReserveLeavesASlotForFiles has fewer slots than the usual reserve needs.
func TestReserveLeavesASlotForFiles(t *testing.T) {
	batch := strings.Replace(base, "{lane: immediate}", "{lane: batch}", 1) + "    imports: {upsert: {etl: \"101\", mode: CREATE_OR_UPDATE}, columns: [customerNumber], "
	for written, want := range map[string]int{"slotsPerDay: 1": 0, "slotsPerDay: 2": 1, "slotsPerDay: 3": 2, "slotsPerDay: 2, reserve: 0": 0, "slotsPerDay: 2, reserve: ": 1} {
		if got := parse(t, batch+written+"}\n").Mappings[0].Imports.Reserve; got != want {
			t.Errorf("%s: got a reserve of %d, want %d", written, got, want)
		}
	}
	for _, written := range []string{"slotsPerDay: 2, reserve: 2", "slotsPerDay: 1, reserve: 1", "reserve: -1"} {
		found := problems(t, batch+written+"}\n")
		if len(found) != 1 || found[0].Path != "mappings[0].imports.reserve" || found[0].Hint == "" {
			t.Errorf("%s: got %v, want one problem at the reserve, with a hint", written, found)
		}
	}
}

func TestWeightIsANumberAboveZero(t *testing.T) {
	with := func(weight string) string {
		return strings.Replace(base, "{lane: immediate}", "{lane: immediate, weight: "+weight+"}", 1)
	}
	for written, want := range map[string]float64{"10": 10, "0.5": 0.5, "${WEIGHT}": 3} {
		if got := parse(t, with(written), "WEIGHT", "3").Mappings[0].Routes[0].Weight; got == nil || *got != want {
			t.Errorf("weight: %s: got %v, want %v", written, got, want)
		}
	}
	for _, written := range []string{"0", "-1", ".inf", ".nan", "lots", `"10"`, "[1]"} {
		found := problems(t, with(written))
		if len(found) != 1 || found[0].Line != 13 || found[0].Path != "mappings[0].routes[0].weight" {
			t.Errorf("weight: %s: got %v, want one problem on line 13", written, found)
		}
	}
}

func TestEmptyValueKeepsTheDefault(t *testing.T) {
	cfg := parse(t, base+"admin:\n  listen:\nretry:\nspool: {dir: ~, maxBytes: \"${NONE:-}1KiB\"}\n")
	if cfg.Admin.Listen != ":8080" || cfg.Retry.Max != 30*time.Second || cfg.Spool.Dir != "/var/lib/feedsink" {
		t.Errorf("got %+v %+v %+v, want the defaults", cfg.Admin, cfg.Retry, cfg.Spool)
	}
}

func TestVariableIsTypedAfterItIsReplaced(t *testing.T) {
	cfg := parse(t, strings.Replace(base, "entity: acme", `entity: "${ENTITY}"
  concurrency:
    max: ${MAX}
  timeout: ${SECONDS:-10}s`, 1), "MAX", "99", "ENTITY", "true")
	if cfg.Service.Concurrency.Max != 99 || cfg.Service.Timeout != 10*time.Second || cfg.Service.Entity != "true" {
		t.Errorf("got max %d, timeout %v, entity %q, want 99, 10s, true",
			cfg.Service.Concurrency.Max, cfg.Service.Timeout, cfg.Service.Entity)
	}
}

func TestQuotedVariableIsTypedToo(t *testing.T) {
	text := strings.Replace(base, "  entity", "  rate: {calls: \"${CALLS}\"}\n  concurrency: {start: \"${NONE:-}\"}\n  entity", 1) + "    imports: {roll: {at: [06:30, \"${AT}\"]}}\nadmin: {pprof: \"${PPROF}\"}\n"
	cfg := parse(t, text, "CALLS", "90", "PPROF", "true", "AT", "18:00")
	if s := cfg.Service; s.Rate.Calls != 90 || s.Concurrency.Start != 16 || !cfg.Admin.PProf {
		t.Errorf("got rate %d, start %d, pprof %v, want 90, 16, true", s.Rate.Calls, s.Concurrency.Start, cfg.Admin.PProf)
	}
	if at := cfg.Mappings[0].Imports.Roll.At; len(at) != 2 || at[0] != "06:30" || at[1] != "18:00" {
		t.Errorf("roll.at: got %q, want 06:30 and 18:00", at)
	}
}

func TestVariablesNeedNoQuotesInFlowStyle(t *testing.T) {
	text := strings.Replace(base, "[localhost:9092]", "[${ONE}, ${TWO:-b:2}]", 1)
	cfg, err := config.Parse("feedsink.yaml", []byte(text), environment("ONE", "a:1"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(cfg.Kafka.Brokers, " "), "a:1 b:2"; got != want {
		t.Errorf("brokers: got %s, want %s", got, want)
	}
}

func TestHostAndPortAreOneTextInEveryStyle(t *testing.T) {
	block := "kafka:\n  brokers: [localhost:9092]\n"
	for _, style := range []string{
		"kafka: {brokers: [10.0.0.1:9092, b:1]}\n",
		"kafka: {brokers: [\"10.0.0.1:9092\", 'b:1']}\n",
		"kafka:\n  brokers: [10.0.0.1:9092, b:1]\n",
		"kafka:\n  brokers:\n    - 10.0.0.1:9092\n    - b:1\n",
	} {
		cfg := parse(t, strings.Replace(base, block, style, 1))
		if got, want := strings.Join(cfg.Kafka.Brokers, " "), "10.0.0.1:9092 b:1"; got != want {
			t.Errorf("%s: got %s, want %s", style, got, want)
		}
	}
}

func TestVariableCannotAddKeys(t *testing.T) {
	const hostile = "acme\n  apiKeyFile: /etc/passwd\n# {[\"'"
	cfg := parse(t, strings.Replace(base, "acme", "${ENTITY}", 1), "ENTITY", hostile)
	if cfg.Service.Entity != hostile || cfg.Service.APIKeyFile != "" {
		t.Errorf("got entity %q, apiKeyFile %q", cfg.Service.Entity, cfg.Service.APIKeyFile)
	}
}

func TestCommentsAreNotExpanded(t *testing.T) {
	parse(t, "# ${UNSET}\n"+strings.Replace(base, "acme", "acme # ${UNSET}", 1))
}

func TestAnchorsAndMergeKeysAreResolved(t *testing.T) {
	cfg := parse(t, base+`    imports: &files
      roll: {rows: 7}
      reserve: 3
  - name: orders
    topics: [shop.orders]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
    imports:
      <<: *files
      reserve: 4
`)
	got := cfg.Mappings[1].Imports
	if got.Roll.Rows != 7 || got.Reserve != 4 || got.Roll.Age != 2*time.Hour {
		t.Errorf("got rows %d, reserve %d, age %v, want 7, 4, 2h", got.Roll.Rows, got.Reserve, got.Roll.Age)
	}
}

func TestSizesAreReadWithTheirUnits(t *testing.T) {
	for text, want := range map[string]router.Bytes{
		"1": 1, "7B": 7, "128MiB": 128 << 20, "3 GiB": 3 << 30, "2kB": 2000, "1TB": 1e12, "1TiB": 1 << 40,
	} {
		if got := parse(t, base+"spool: {maxBytes: "+text+"}\n").Spool.MaxBytes; got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

func TestLoadOfAMissingFileNamesIt(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), os.LookupEnv)
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), "none.yaml: no such file or directory; -c names another file, feedsink init writes one") {
		t.Errorf("got %v, want a missing none.yaml, and what to do", err)
	}
}
