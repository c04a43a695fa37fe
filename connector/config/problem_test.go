package config_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
)

var update = flag.Bool("update", false, "write golden files instead of comparing")

// problems parses a file that must not work.
func problems(t *testing.T, data string, env ...string) []config.Problem {
	t.Helper()
	_, err := config.Parse("feedsink.yaml", []byte(data), environment(env...))
	found, ok := errors.AsType[*config.Problems](err)
	if !ok {
		t.Fatalf("got %v, want *Problems", err)
	}
	return found.List
}

func TestSixMistakesAreSixProblems(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "six.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.Parse("six.yaml", data, environment())
	found, ok := errors.AsType[*config.Problems](err)
	if !ok {
		t.Fatalf("got %v, want *Problems", err)
	}
	var lines []int
	for _, p := range found.List {
		lines = append(lines, p.Line)
	}
	if got, want := fmt.Sprint(lines), "[3 4 8 9 10 17]"; got != want {
		t.Errorf("lines: got %s, want %s", got, want)
	}
	golden := filepath.Join("testdata", "six.golden")
	got := err.Error() + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// spoiled is base with one mistake in it.
func spoiled(from, to string) string { return strings.Replace(base, from, to, 1) }

// mistakes are files with one mistake each, and the one problem it must give
// as `line:column: path: message; hint`.
var mistakes = map[string]struct{ file, want string }{
	"tab":              {"kafka:\n\tbrokers: [a:1]\n", "2:1: : not readable as YAML: found character '\t' that cannot start any token; indent with spaces, not tabs"},
	"bare brackets":    {base + "dlq: {topic: a[0].b}\n", "14:15: : not readable as YAML: ',' or '}' must be specified; put text with [ ] in quotes: 'items[0].sku'"},
	"out of line":      {"kafka:\n  group: a\n brokers: [a:1]\n", "3:2: : not readable as YAML: value is not allowed in this context; check how far this line, and those around it, are indented; put a value that holds \": \" or \" #\" in quotes"},
	"colon in a value": {spoiled("    topics", "    op: op == \"x\" ? \"a\" : \"b\"\n    topics"), "10:9: : not readable as YAML: mapping value is not allowed in this context; check how far this line, and those around it, are indented; put a value that holds \": \" or \" #\" in quotes"},
	"not UTF-8":        {"kafka:\n  group: \xff\n", "2:10: : not UTF-8 text; save the file as UTF-8"},
	"empty":            {"# nothing\n", "1:1: : the file is empty; start with kafka:, service: and mappings:"},
	"many brackets":    {"kafka: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n", "1:108: : nested more than 100 deep; a closing bracket may be missing"},
	"many braces":      {"kafka: " + strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000) + "\n", "1:408: : nested more than 100 deep; a closing bracket may be missing"},
	"many dashes":      {"kafka:\n  " + strings.Repeat("- ", 5000) + "a\n", "2:203: : nested more than 100 deep; a closing bracket may be missing"},
	"two documents":    {base + "---\na: 1\n", "15:1: : a second YAML document; write one document per file, without ---"},
	"a list":           {"- a\n", "1:1: : must be a block of keys, is a list; its keys are kafka, schemaRegistry, service, retry, dlq, receipts, memory, spool, admin, log, tracing, mappings"},
	"key twice":        {base + "dlq: {topic: a}\ndlq: {topic: b}\n", "15:1: dlq: the key is given twice; remove one of them"},
	"close key":        {spoiled("  entity", "  time_out: 3s\n  entity"), "6:3: service.time_out: unknown key; did you mean service.timeout?"},
	"key of a parent":  {base + "sessionTimeout: 9s\n", "14:1: sessionTimeout: unknown key; did you mean kafka.sessionTimeout?"},
	"strange key":      {base + "dlq: {zzz: 1}\n", "14:7: dlq.zzz: unknown key; the keys here are topic, flood"},
	"misspelt required key is not missing too": {spoiled("apiKey:", "apikey:"), "7:3: service.apikey: unknown key; did you mean service.apiKey?"},
	"no alias":                     {base + "dlq: {topic: *t}\n", "14:14: dlq.topic: the alias has no anchor before it; write &NAME in front of the value that *NAME repeats, or put text that begins with * in quotes"},
	"tag":                          {base + "dlq: {topic: !!str t}\n", "14:14: dlq.topic: YAML tags are not supported; remove the tag, or put text that begins with ! in quotes"},
	"header of a block":            {base + "dlq: {topic: a}\nlog: |x\n", "15:6: : not readable as YAML: invalid header option; put text that begins with | or > in quotes"},
	"tab in a text":                {base + "dlq: {topic: a\tb}\n", "14:14: dlq.topic: a tab within text that is not in quotes; put the text in quotes"},
	"no variable":                  {base + "dlq: {topic: \"${DLQ}\"}\n", "14:14: dlq.topic: the environment variable DLQ is not set; set it, or write ${DLQ:-default}"},
	"variable as a key":            {base + "dlq: {${DLQ}: a}\n", "14:7: dlq.${DLQ}: unknown key; the keys here are topic, flood"},
	"open variable":                {base + "dlq: {topic: \"${DLQ\"}\n", "14:14: dlq.topic: ${ without }; write $${ where ${ itself is meant"},
	"list wanted":                  {spoiled("[localhost:9092]", "localhost:9092"), "2:12: kafka.brokers: must be a list, is a single value; write [localhost:9092]"},
	"block wanted":                 {base + "retry: often\n", "14:8: retry: must be a block of keys, is a single value; its keys are initial, max, giveUpAfter"},
	"value wanted":                 {base + "dlq: {topic: [a]}\n", "14:14: dlq.topic: must be a single value, is a list; put text with [ ] in quotes: 'items[0].sku'"},
	"empty element":                {spoiled("[crm.customers]", "[crm.customers, ~]"), "10:29: mappings[0].topics[1]: an empty element; write a value or remove the element"},
	"unitless":                     {base + "retry: {max: 30}\n", "14:14: retry.max: must be a duration with a unit, is \"30\"; write 30s for seconds"},
	"no duration":                  {base + "retry: {max: soon}\n", "14:14: retry.max: must be a duration, is \"soon\"; write 30s; the units are ms, s, m and h"},
	"too long":                     {base + "retry: {max: 876001h}\n", "14:14: retry.max: must be a duration of at most 876000h, is \"876001h\"; that is a hundred years"},
	"too long to be counted":       {base + "retry: {max: -10000000h1.5s}\n", "14:14: retry.max: must be a duration of at most 876000h, is \"-10000000h1.5s\"; that is a hundred years"},
	"no size":                      {base + "spool: {maxBytes: 2 GO}\n", "14:19: spool.maxBytes: must be a size, is \"2 GO\"; write 128MiB; the units are KiB, MiB, GiB and TiB, or kB, MB, GB and TB"},
	"huge size":                    {base + "spool: {maxBytes: 9000000000000TiB}\n", "14:19: spool.maxBytes: must be a size, is \"9000000000000TiB\"; write 128MiB; the units are KiB, MiB, GiB and TiB, or kB, MB, GB and TB"},
	"no number":                    {base + "    imports: {reserve: two}\n", "14:24: mappings[0].imports.reserve: must be a whole number, is \"two\"; write digits, such as 16"},
	"list of two":                  {spoiled("[localhost:9092]", "a:1,b:2"), "2:12: kafka.brokers: must be a list, is a single value; write [a:1,b:2]"},
	"quoted number":                {base + "    imports: {reserve: '2'}\n", "14:24: mappings[0].imports.reserve: must be a whole number, is \"2\"; write it without quotes"},
	"no boolean":                   {base + "admin: {pprof: yes}\n", "14:16: admin.pprof: must be true or false, is \"yes\"; "},
	"no broker":                    {spoiled("[localhost:9092]", "[]"), "2:3: kafka.brokers: is required; write [localhost:9092]"},
	"no kafka":                     {strings.Join(strings.SplitAfter(base, "\n")[2:], ""), "1:1: kafka.brokers: is required; write [localhost:9092]"},
	"no port":                      {spoiled("localhost:9092", "localhost:99999"), "2:13: kafka.brokers[0]: must be host:port, is \"localhost:99999\"; write localhost:9092"},
	"wrong word":                   {spoiled("brokers", "startAt: Latest\n  brokers"), "2:12: kafka.startAt: must be one of earliest, latest, is \"Latest\"; did you mean latest?"},
	"short session":                {spoiled("brokers", "sessionTimeout: 1s\n  brokers"), "2:19: kafka.sessionTimeout: must be between 6s and 30m, is \"1s\"; write 30s"},
	"broker with a space":          {spoiled("[localhost:9092]", "[\"local host:9092\"]"), "2:13: kafka.brokers[0]: must be host:port, is \"local host:9092\"; write localhost:9092"},
	"long call":                    {spoiled("apiKey: key", "apiKey: key\n  timeout: 24h1s"), "8:12: service.timeout: must be at most 24h, is \"24h1s\"; a minute is enough for most services"},
	"too many calls":               {spoiled("apiKey: key", "apiKey: key\n  concurrency: {max: 10_001}"), "8:22: service.concurrency.max: must be at most 10000, is \"10_001\"; the default is 256"},
	"relative":                     {spoiled("baseURL: http://localhost:8090", "baseURL: localhost:8090"), "4:12: service.baseURL: must be an absolute http or https address, is \"localhost:8090\"; write https://host"},
	"no key":                       {spoiled("  apiKey: key\n", ""), "3:1: service.apiKey: one of apiKey and apiKeyFile is required; write apiKeyFile: /run/secrets/api-key"},
	"two keys":                     {spoiled("apiKey: key", "apiKey: key\n  apiKeyFile: /k"), "8:15: service.apiKeyFile: only one of apiKey and apiKeyFile can be given; remove apiKey: a file can be rotated without a restart"},
	"start over max":               {spoiled("apiKey: key", "apiKey: key\n  concurrency: {max: 4}"), "8:3: service.concurrency: start must not be above max, is \"16\" with max \"4\"; lower start or raise max"},
	"no rate span":                 {spoiled("apiKey: key", "apiKey: key\n  rate: {calls: 5, per: 0s}"), "8:25: service.rate.per: must be above 0, is \"0s\"; "},
	"no header":                    {base + "admin: {webhook: {header: X Y}}\n", "14:27: admin.webhook.header: must be the name of an HTTP header, is \"X Y\"; "},
	"header of HTTP's own":         {base + "admin: {webhook: {header: content-length}}\n", "14:27: admin.webhook.header: must not be a header of HTTP's own, is \"content-length\"; write X-Feedsink-Secret"},
	"members with a space":         {base + "admin: {webhook: {members: 'a b:80'}}\n", "14:28: admin.webhook.members: must be host:port, is \"a b:80\"; a name that resolves to all members, such as that of a headless Service"},
	"no members port":              {base + "admin: {webhook: {members: members}}\n", "14:28: admin.webhook.members: must be host:port, is \"members\"; a name that resolves to all members, such as that of a headless Service"},
	"dead letters read as events":  {base + "dlq: {topic: crm.customers}\n", "10:14: mappings[0].topics[0]: is the dead-letter topic: its records would be read as events; use another topic for dlq.topic"},
	"receipts read as events":      {base + "receipts: {topic: crm.customers}\n", "10:14: mappings[0].topics[0]: is the receipts topic: its records would be read as events; use another topic for receipts.topic"},
	"no receipts topic's name":     {base + "receipts: {topic: a b}\n", "14:19: receipts.topic: must be a topic's name, is \"a b\"; up to 249 of the characters a-z A-Z 0-9 . _ -"},
	"no mapping":                   {base[:strings.Index(base, "mappings:")], "1:1: mappings: is required; at least one mapping, from topics to a table"},
	"mechanism":                    {spoiled("brokers", "sasl: {mechanism: SCRAM-SHA256}\n  brokers"), "2:21: kafka.sasl.mechanism: must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM, is \"SCRAM-SHA256\"; did you mean SCRAM-SHA-256?"},
	"a format without a registry":  {spoiled("profileTable", "format: protobuf\n    profileTable"), "11:13: mappings[0].format: protobuf needs schemaRegistry.url; write schemaRegistry: {url: https://host}"},
	"JSON keys without a registry": {spoiled("profileTable", "kafkaKey: json-schema\n    profileTable"), "11:15: mappings[0].kafkaKey: json-schema needs schemaRegistry.url; write schemaRegistry: {url: https://host}"},
	"keys without a registry":      {spoiled("profileTable", "kafkaKey: avro\n    profileTable"), "11:15: mappings[0].kafkaKey: avro needs schemaRegistry.url; write schemaRegistry: {url: https://host}"},
	"login without a registry":     {base + "schemaRegistry: {username: me}\n", "14:1: schemaRegistry.url: is required with a login or certificates; write https://host"},
	"half a login":                 {base + "schemaRegistry: {url: http://h, username: me}\n", "14:1: schemaRegistry.passwordFile: is required with username; a login is both"},
	"half a certificate":           {base + "schemaRegistry: {url: https://h, tls: {keyFile: /k.pem}}\n", "14:34: schemaRegistry.tls.certFile: is required with keyFile; a certificate needs both files"},
	"AWS without TLS":              {spoiled("brokers", "sasl: {mechanism: AWS_MSK_IAM}\n  brokers"), "1:1: kafka.tls: is required with AWS_MSK_IAM, which brokers take over TLS only; add tls: {enabled: true}"},
	"half a pair":                  {spoiled("brokers", "tls: {enabled: true, certFile: /c.pem}\n  brokers"), "2:3: kafka.tls.keyFile: is required with certFile; a certificate needs both files"},
	"unused TLS":                   {spoiled("brokers", "tls: {caFile: /c.pem}\n  brokers"), "2:3: kafka.tls: is not enabled: brokers would be reached without encryption; write enabled: true"},
	"empty TLS":                    {spoiled("brokers", "tls: {}\n  brokers"), "2:3: kafka.tls: is not enabled: brokers would be reached without encryption; write enabled: true"},
	"merged list":                  {base + "dlq: {<<: [{topic: t}, 5]}\n", "14:24: dlq: << takes blocks of keys, not a single value; write <<: *NAME with an anchor on a block of keys"},
	"no alias in a list":           {spoiled("[crm.customers]", "[a, *t]"), "10:17: mappings[0].topics[1]: the alias has no anchor before it; write &NAME in front of the value that *NAME repeats, or put text that begins with * in quotes"},
	"no memory":                    {base + "memory: {pending: 64KiB}\n", "14:19: memory.pending: must be between 1MiB and 1TiB, is \"64KiB\"; the default is enough for thousands of records of some kilobytes"},
	"nothing is fetched":           {base + "memory: {fetched: 0MiB}\n", "14:19: memory.fetched: must be between 1MiB and 1TiB, is \"0MiB\"; the default is enough for thousands of records of some kilobytes"},
	"spool too small":              {base + "    imports: {upsert: {etl: \"1\", mode: CREATE_UPDATE}, roll: {bytes: 2MiB}}\nspool: {maxBytes: 1MiB}\n", "14:70: mappings[0].imports.roll.bytes: must not be above spool.maxBytes, is \"2MiB\"; the spool would be full before a file is"},
}

func TestOneMistakeIsOneProblemAtItsPlace(t *testing.T) {
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range problems(t, c.file) {
				got = append(got, fmt.Sprintf("%d:%d: %s: %s; %s", p.Line, p.Column, p.Path, p.Message, p.Hint))
			}
			if len(got) != 1 || got[0] != c.want {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}

func TestProblemsPointIntoCRLFFiles(t *testing.T) {
	file := strings.ReplaceAll(spoiled("  entity: acme", "  entity: ''"), "\n", "\r\n")
	got := problems(t, "\ufeff"+file)
	if len(got) != 1 || got[0].Line != 6 || got[0].Column != 11 {
		t.Errorf("got %+v, want one problem at 6:11", got)
	}
}

func TestMisspeltKeyHidesNoMistakeOfTheRightOne(t *testing.T) {
	got := problems(t, base+"retry: {max: 0s, maxx: 1s}\n")
	if len(got) != 2 || got[0].Path != "retry.max" || got[1].Path != "retry.maxx" {
		t.Errorf("got %+v, want problems of retry.max and retry.maxx", got)
	}
}
