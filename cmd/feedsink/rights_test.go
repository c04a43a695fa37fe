package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// withReceipts is a configuration whose login is LOGIN.
const withReceipts = `
kafka: {brokers: ["BROKER"], sasl: {mechanism: PLAIN, username: LOGIN, passwordFile: ./secret, allowPlaintext: true}}
service: {baseURL: ADDRESS, authURL: ADDRESS, entity: acme, apiKey: key, timeout: 5s}
dlq: {topic: feedsink.dlq}
receipts: {topic: feedsink.receipts}
spool: {dir: ./spool}
mappings:
  - name: orders
    topics: [shop.orders]
    customTable: orders
    key: businessKey
    fields: [{from: id, to: businessKey}, {from: total, to: total, as: number}]
    routes: [{when: total > 1000, lane: batch}, {lane: immediate}]
    imports:
      upsert: {etl: "8", mode: CREATE_OR_UPDATE}
      columns: [businessKey, total]
`

// commandRights are the rights of each command in the table of deploy/kafka-acls.md.
func commandRights(t *testing.T) map[string][]kfake.ACL {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kafka-acls.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(document), "\n| command |")
	table, _, _ = strings.Cut(table, "\n\n")
	rights := map[string][]kfake.ACL{}
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(row, "|")
		if len(cells) != 9 {
			t.Fatalf("%s: got %d cells, want 7", row, len(cells)-2)
		}
		command := strings.Trim(cells[1], " `")
		rights[command] = []kfake.ACL{} // a command without any
		for i, names := range [][]string{
			{"shop.orders"},
			{"feedsink.dlq"},
			{"feedsink.receipts"},
			{"feedsink-immediate", "feedsink-batch"},
			{"feedsink-replay"},
			{"feedsink-backfill."},
		} {
			for word := range strings.FieldsFuncSeq(cells[2+i], func(r rune) bool { return r == ' ' || r == ',' }) {
				operation, err := kmsg.ParseACLOperation(word)
				if err != nil {
					t.Fatalf("%s: %v", row, err)
				}
				for _, name := range names {
					right := kfake.ACL{Name: name, Operation: operation, Allow: true, Resource: kmsg.ACLResourceTypeTopic, Pattern: kmsg.ACLResourcePatternTypeLiteral}
					if i >= 3 {
						right.Resource = kmsg.ACLResourceTypeGroup
					}
					if i >= 4 {
						right.Pattern = kmsg.ACLResourcePatternTypePrefixed
					}
					rights[command] = append(rights[command], right)
				}
			}
		}
	}
	return rights
}

// TestCommandsDoWithTheRightsOfTheDocument has each command log in with what its row says.
func TestCommandsDoWithTheRightsOfTheDocument(t *testing.T) {
	lines := []struct {
		command, line string
		code          int
		says          string
	}{
		{"init", "init --brokers BROKER --topic shop.orders --username init --sasl PLAIN --password-file secret --allow-plaintext", 0, "shop.orders"},
		{"plan", "plan", 0, "4 of 4 records read"},
		{"import", "import --mapping orders rows.csv", 0, "execution"},
		{"why", "why --mapping orders o1", 0, "receipt  called"},
		{"audit", "audit", 0, "gaps          none"},
		{"verify", "verify --mapping orders", 0, "equal         2 of 2"},
		{"backfill", "backfill --mapping orders --since 30d --rate 600/m", 0, "2 by calls"},
		{"", "record delete --table orders o1", 0, ""}, // something to repair
		{"verify --repair", "verify --mapping orders --repair --rate 600/m", 0, "1 sent again"},
		{"dlq list", "dlq list", 0, "not valid JSON"},
		{"dlq replay", "dlq replay", 1, "2  failed again"},
		{"forget", "forget --mapping orders o3", 1, "dead letter"},
		{"forget --yes", "forget --mapping orders o3 --yes", 0, ""},
		{"dlq discard", "dlq discard --reason tests", 0, "dead letter discarded"},
	}
	rights := commandRights(t)
	options := []kfake.Opt{
		kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.orders", "feedsink.dlq", "feedsink.receipts"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "admin", "s3cret"),
	}
	for command, acls := range rights {
		options = append(options, kfake.User("PLAIN", strings.ReplaceAll(command, " ", ""), "s3cret", acls...))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	d := newHost(t)
	broker := cluster.ListenAddrs()[0]
	login := func(name string) {
		d.write("feedsink.yaml", strings.NewReplacer("ADDRESS", d.url, "BROKER", broker, "LOGIN", name).Replace(withReceipts))
	}
	d.write("rows.csv", "businessKey,total\no9,9\n")
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.SASL(plain.Auth{User: "admin", Pass: "s3cret"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for _, value := range []string{`{"id":"o3","total":"many"}`, "nonsense", `{"id":"o1","total":1}`, `{"id":"o2","total":2}`} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "shop.orders", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	login("admin")
	ctx, stop := d.runSink()
	awaitCommit(ctx, t, client, 4)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, c := range lines {
		login("admin")
		if c.command != "" {
			if rights[c.command] == nil {
				t.Errorf("deploy/kafka-acls.md has no row for %s", c.command)
			}
			login(strings.ReplaceAll(c.command, " ", ""))
		}
		delete(rights, c.command)
		code, out, failed := d.run(strings.ReplaceAll(c.line, "BROKER", broker))
		if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out+failed, "AUTHORIZATION") {
			t.Errorf("%s: got code %d, %s\n%s\nwant %d and %q", c.line, code, failed, out, c.code, c.says)
		}
	}
	for command := range rights {
		t.Errorf("deploy/kafka-acls.md has a row for %s, which no line of the test runs", command)
	}
}
