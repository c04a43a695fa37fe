package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

func TestCheckWarnsOfWhatIsLikelyNotMeant(t *testing.T) {
	d := newHost(t)
	d.change("upsert: {mode", "upsert: {etl: \"8\", mode")
	d.change("mappings:\n", "mappings:\n  - name: orders\n    topics: [orders]\n    customTable: orders\n    key: businessKey\n"+
		"    fields: [{from: number, to: businessKey}]\n    routes: [{when: numbr == 1, lane: skip}, {lane: immediate}]\n")
	code, out, failed := d.run("check")
	const want = `: mappings[0].routes[0].when: no field of the mapping reads "numbr", which is nil where records do not have it; hint: did you mean "number"?`
	if code != 0 || !strings.HasPrefix(out, "feedsink.yaml: the configuration can work\nwarning feedsink.yaml:") || !strings.Contains(out, want) {
		t.Errorf("got code %d, %s%s\nwant 0 and a warning%s", code, out, failed, want)
	}
	if _, out, _ = d.run("check -o json"); !strings.Contains(out, `"path": "mappings[0].routes[0].when"`) || !strings.Contains(out, `"configuration": []`) {
		t.Errorf("as JSON: got %s, want the warning and a list without mistakes", out)
	}
}

// granted are the rights that the commands of deploy/kafka-acls.md for a sink grant.
func granted(t *testing.T) (acls []kfake.ACL) {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kafka-acls.md"))
	if err != nil {
		t.Fatal(err)
	}
	sink, _, _ := strings.Cut(string(document), "## For commands")
	for _, command := range regexp.MustCompile(`(?m)^\$acls (.*) --(topic|group) (\S+)$`).FindAllStringSubmatch(sink, -1) {
		for _, op := range regexp.MustCompile(`--operation (\S+)`).FindAllStringSubmatch(command[1], -1) {
			right := kfake.ACL{Name: command[3], Pattern: kmsg.ACLResourcePatternTypeLiteral, Allow: true, Resource: kmsg.ACLResourceTypeTopic}
			if command[2] == "group" {
				right.Resource = kmsg.ACLResourceTypeGroup
			}
			if right.Operation, err = kmsg.ParseACLOperation(op[1]); err != nil {
				t.Fatal(err)
			}
			acls = append(acls, right)
		}
	}
	if len(acls) != 10 {
		t.Fatalf("got %d rights, want two in each of five commands", len(acls))
	}
	return acls
}

const sparingly = `
kafka: {brokers: ["BROKER"], sasl: {mechanism: PLAIN, username: feedsink, passwordFile: ./secret, allowPlaintext: true}}
service: {baseURL: ADDRESS, authURL: ADDRESS, entity: acme, apiKey: key, timeout: 5s}
dlq: {topic: feedsink.dlq}
spool: {dir: ./spool}
admin: {listen: "127.0.0.1:0"}
mappings:
  - name: customers
    topics: [crm.customers]
    profileTable: customers
    key: customerNumber
    routes: [{lane: batch}]
    imports:
      delete: {etl: "7", mode: DELETE}
      columns: [customerNumber]
      roll: {age: 1h}
  - name: orders
    topics: [shop.orders]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
`

// What a sink does needs no other right than the document says.
func TestSinkAndCheckDoWithTheRightsOfTheDocument(t *testing.T) {
	rights := granted(t)
	d := newHost(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "crm.customers", "shop.orders", "feedsink.dlq"),
		kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "feedsink", "s3cret", rights...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	d.write("feedsink.yaml", strings.NewReplacer("ADDRESS", d.url, "BROKER", cluster.ListenAddrs()[0]).Replace(sparingly))
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.SASL(plain.Auth{User: "admin", Pass: "admin"}.AsMechanism()),
		kgo.ConsumeTopics("feedsink.dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for _, value := range append(slices.Repeat([]string{`{"businessKey":"o1","properties":{"total":1}}`}, 20), "nonsense") {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "shop.orders", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, failed := d.run("check --online"); code != 0 || strings.Count(out, "\nOK          group ") != 2 || !strings.Contains(out, "\nWARN        last records of orders: 1 of 21 ") {
		t.Errorf("check: got code %d, %s %s, want nothing that failed", code, out, failed)
	}
	ctx, stop := d.runSink()
	if letters := client.PollFetches(ctx); letters.NumRecords() != 1 || letters.Err() != nil {
		t.Errorf("dead letters: got %d, %v, want the one record that is none", letters.NumRecords(), letters.Err())
	}
	awaitCommit(ctx, t, client, 21)
	if err := stop(); err != nil || d.service.Len("orders") != 1 {
		t.Errorf("run: got %v, %d rows, want the order", err, d.service.Len("orders"))
	}
}

// runSink runs the sink for a minute at most; stop ends it, and says how it did.
func (d *host) runSink() (ctx context.Context, stop func() error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	command := newRoot()
	command.SetArgs([]string{"run", "-c", "feedsink.yaml", "--log-level", "error"})
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	return ctx, func() error { cancel(); return <-ended }
}

// awaitCommit returns once the immediate lane has committed so many records of shop.orders.
func awaitCommit(ctx context.Context, t *testing.T, client *kgo.Client, records int64) {
	t.Helper()
	admin := kadm.NewClient(client)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		immediate, err := admin.FetchOffsets(ctx, "feedsink-immediate")
		if ctx.Err() != nil {
			t.Fatalf("the offset is not committed: %v", err)
		}
		if at, _ := immediate.Lookup("shop.orders", 0); at.At == records {
			return
		}
		<-tick.C
	}
}

func TestCheckOnlineReportsAllAndFailsWithOne(t *testing.T) {
	d := newHost(t)
	d.change(`upsert: {mode`, `upsert: {etl: "8", mode`)
	code, out, failed := d.run("check --online -o json")
	var report struct {
		Online []struct{ What, Result, Detail string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || failed != fmt.Sprintf("1 check of %d failed", len(report.Online)) {
		t.Errorf("got code %d, %v, %s %s, want 1", code, err, out, failed)
	}
	results := map[string]int{}
	for _, c := range report.Online {
		results[c.Result]++
	}
	if results["FAIL"] != 1 || results["OK"] < 3 || results["NOT CHECKED"] != 4 {
		t.Errorf("got %v in %s, want the broker as the one failure, and the rest told all the same", results, out)
	}
	if code, _, _ = d.run("check --online --records -1"); code != 2 {
		t.Errorf("--records -1: got code %d, want 2", code)
	}
}
