package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// topics are what init meets, with what it must recognise in each.
var topics = map[string]struct {
	records []string // KEY value
	want    []string
	etls    string // the command without whose ETLs check refuses the file
}{
	"crm.people": {
		records: []string{
			`7 {"id":7,"mail":"a@example.com","born":"1990-04-01","contact":{"phone number":"+33 1 23 45 67","country":"fr"},"tags":["a"],"vip":true,"newsletter":true,"points":12,"weight":60.5,"createdAt":1732183200000,"timestamp":"x","note":null,"lines":[{"a":1}]}`,
			`8 {"id":8,"mail":"b@example.com","born":"1991-04-01","contact":{"phone number":"+33 1 23 45 68","country":"de"},"tags":[],"vip":false,"newsletter":false,"points":-3,"weight":61,"createdAt":1732183300000,"timestamp":"y","note":null,"on":"z"}`,
		},
		want: []string{
			`profileTable: "people"`, "key: id ", "# id is the key, because its value is the Kafka key of every record",
			"{from: id, to: id, as: string}", "{from: mail, to: mail, as: email}", "{from: born, to: born, as: date}",
			`{from: 'contact["phone number"]', to: contactPhoneNumber, as: phone}`, "{from: contact.country, to: contactCountry, as: country}",
			"{from: tags, to: tags, as: list}", "{from: points, to: points, as: integer}", "{from: weight, to: weight, as: number}",
			"{from: createdAt, to: createdAt, as: timestamp, format: epochMillis}", `{from: '["timestamp"]', to: timestamp}`,
			"{from: note, to: note}   # always null in the sample", `subscriptions#newsletter`, `{from: 'on', to: 'on'}`,
		},
	},
	"shop.orders": {
		records: []string{`- {"total":1,"ref":"A1","items":["x"]}`, `- {"total":1,"ref":"A2","items":["y"]}`},
		want:    []string{`customTable: "orders"`, "key: businessKey", "# DECIDE: ref is the key, because no two records", "{from: ref, to: businessKey}", "# - {from: items"},
	},
	"canonical.profiles": {
		records: []string{`- {"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`},
		want:    []string{"canonical profile events", "key: customerNumber", "columns: [customerNumber, S_tier]"},
	},
	"canonical.records": {
		records: []string{`- {"businessKey":"4c","properties":{"total":3}}`},
		want:    []string{"canonical record events", "key: businessKey", "columns: [businessKey, total]"},
	},
	"shop.cloudevents": {
		records: []string{
			`A1 {"specversion":"1.0","id":"1","source":"/shop","type":"sold","data":{"ref":"A1","total":1}}`,
			`A2 {"specversion":"1.0","id":"2","source":"/shop","type":"sold","data_base64":"eyJyZWYiOiJBMiIsInRvdGFsIjoyfQ=="}`,
			`A3 {"specversion":"1.0","id":"3","source":"/shop","type":"sold","data":{"ref":"A3","total":3}}`,
		},
		want: []string{"# They are the data of CloudEvents.", "envelope: cloudevents", "{from: ref, to: businessKey}", "as: integer"},
	},
	"shop.events": {
		records: []string{
			`C1 {"type":"customer.registered","customer":{"number":"C1","mail":"a@example.com","tier":"gold","consent":{"sms":"Y"}}}`,
			`C2 {"type":"customer.registered","customer":{"number":"C2","mail":"b@example.com","tier":"basic","consent":{"sms":"N"}}}`,
			`C1 {"type":"customer.consent.changed","customer":{"number":"C1","consent":{"sms":"N"}}}`,
			`C1 {"type":"order.placed","order":{"orderId":"O1","customerId":"C1","total":"12,50"}}`,
			`C1 {"type":"order.cancelled","order":{"orderId":"O1","customerId":"C1"}}`,
		},
		want: []string{
			"- name: customer\n", "- name: order\n", `op: 'value.type == "customer.consent.changed" ? "patch" : value.type == "customer.registered" ? "upsert" : nil'`, "to: 'subscriptions#sms'",
			`op: 'value.type == "order.cancelled" ? "patch" : value.type == "order.placed" ? "upsert" : nil'`, "# DECIDE: does order.cancelled (50 %) delete the row?", "# after: [customer]",
			"routes: [{lane: auto}]", "routes: [{lane: immediate}]             # DECIDE: not auto yet",
		},
		etls: "etl create --mapping customer",
	},
	"db.public.customers": {
		records: []string{`{"id":1} {"op":"c","before":null,"after":{"id":1,"email":"a@example.com"},"source":{"table":"customers"},"ts_ms":1}`},
		want:    []string{"envelope: debezium", "kafkaKey: json", "{from: email, to: email, as: email}", "Deletes of profiles need"},
	},
}

func TestInitWritesWhatCheckAccepts(t *testing.T) {
	d := newHost(t)
	d.write("api-key", "key\n")
	t.Setenv("FEEDSINK_SECRETS", ".")
	var names []string
	for name := range topics {
		names = append(names, name)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, append(names, "empty", "wire")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	produce := func(topic, key, value string) {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	binary := kgo.Record{Topic: "shop.cloudevents", Key: []byte("A4"), Value: []byte(`{"ref":"A4","total":4}`)}
	for name, value := range map[string]string{"ce_specversion": "1.0", "ce_id": "4", "ce_source": "/shop", "ce_type": "sold"} {
		binary.Headers = append(binary.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	if err := client.ProduceSync(t.Context(), &binary).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for name, c := range topics {
		for _, r := range c.records {
			key, value, _ := strings.Cut(r, " ")
			produce(name, strings.Trim(key, "-"), value)
		}
		file := name + ".yaml"
		if code, out, failed := d.run(fmt.Sprintf("init --brokers %s --topic %s --out %s", cluster.ListenAddrs()[0], name, file)); code != 0 {
			t.Errorf("%s: got code %d, %s %s", name, code, out, failed)
			continue
		}
		written, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(string(written), want) {
				t.Errorf("%s: got\n%s\nwant %q in it", name, written, want)
			}
		}
		code, out, failed := d.run("check -c " + file)
		if c.etls == "" && code != 0 || c.etls != "" && (code != 2 || !strings.Contains(failed, "etl: missing") || !strings.Contains(string(written), "feedsink etl create")) {
			t.Errorf("%s: check says %s %s of\n%s", name, out, failed, written)
		}
		if c.etls != "" {
			if code, out, failed := d.run(c.etls + " --dry-run -c " + file); code != 0 {
				t.Errorf("%s: got code %d, %s %s, want the ETL's definition", name, code, out, failed)
			}
		}
		if code, out, failed := d.run("plan -c " + file); code != 0 || !strings.Contains(out, "no record would be a dead letter") {
			t.Errorf("%s: plan says %s %s of\n%s", name, out, failed, written)
		}
	}
	produce("wire", "", "\x00\x00\x00\x00\x01abc")
	produce("empty", "k", "not JSON")
	for line, want := range map[string]string{
		"--topic empty": "there is nothing to guess from (0 without a value, 1 unreadable)",
		"--topic wire":  "in the wire format of a schema registry",
		"--topic shop.orders --out shop.orders.yaml": "is there already, and init writes over nothing",
		"--topic nowhere": "nowhere",
	} {
		if code, _, failed := d.run("init --brokers " + cluster.ListenAddrs()[0] + " " + line); code != 1 || !strings.Contains(failed, want) {
			t.Errorf("init %s: got code %d, %q, want 1 and %q", line, code, failed, want)
		}
	}
	if code, _, failed := d.run("init --brokers x:1"); code != 2 || !strings.Contains(failed, "--topic") {
		t.Errorf("without a topic: got code %d, %q, want 2", code, failed)
	}
}

// Somebody who has a topic and no service yet can look at what would go out, and keep
// the topic's events as samples.
func TestWhatInitWritesIsPlannedAndTestedWithoutAService(t *testing.T) {
	d := newHost(t)
	t.Setenv("FEEDSINK_SECRETS", "./none")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.orders", "shop.events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	samples := "tables:\n" +
		"  orders: {custom: true, fields: {total: Integer}}\n" +
		"  order: {custom: true, fields: {customerId: String, total: Number}}\n" +
		"  customer: {keys: [customerNumber], fields: {customerNumber: String, mail: String}, subscriptions: [sms], segments: {tier: [gold, basic]}}\n" +
		"events:\n"
	for _, topic := range []string{"shop.orders", "shop.events"} {
		for _, r := range topics[topic].records {
			key, value, _ := strings.Cut(r, " ")
			if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			samples += fmt.Sprintf("  - {topic: %s, key: %q, value: %s}\n", topic, strings.Trim(key, "-"), value)
		}
	}
	d.write("samples.yaml", samples)
	if code, out, failed := d.run("init --brokers " + cluster.ListenAddrs()[0] + " --topic shop.orders --topic shop.events --out both.yaml"); code != 0 || !strings.Contains(out, "feedsink etl create -c both.yaml") {
		t.Fatalf("init: got code %d, %s %s, want what to do next", code, out, failed)
	}
	if code, out, failed := d.run("plan -c both.yaml"); code != 0 || !strings.Contains(out, "service.apiKeyFile") || !strings.Contains(out, "no record would be a dead letter") {
		t.Errorf("plan: got code %d, %s %s, want the plan, and what is missing before a sink starts", code, out, failed)
	}
	if code, out, failed := d.run("test -c both.yaml samples.yaml --update"); code != 0 || !strings.Contains(out, "7 events became 5 rows and 0 dead letters") {
		t.Errorf("test: got code %d, %s %s, want rows", code, out, failed)
	}
	for flags, want := range map[string]string{
		"--topic a --topic a":                          "--topic: a is named twice",
		"--topic a --limit 10001":                      "--limit: must be from 1 to 10000",
		"--topic a --topic b --custom-table t":         "--profile-table, --custom-table: are for one topic",
		"--topic a --profile-table p --custom-table c": "a topic is mapped to one table",
	} {
		if code, _, failed := d.run("init --brokers x:1 " + flags); code != 2 || !strings.Contains(failed, want) {
			t.Errorf("%s: got code %d, %q, want 2 and %q", flags, code, failed, want)
		}
	}
}

func TestInitGetsInAsItIsTold(t *testing.T) {
	d := newHost(t)
	d.write("api-key", "key\n")
	d.write("password", "pw\n")
	t.Setenv("FEEDSINK_SECRETS", ".")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.orders"), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "feedsink", "pw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.SASL(scram.Auth{User: "feedsink", Pass: "pw"}.AsSha512Mechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for _, value := range []string{`{"ref":"A1"}`, `{"ref":"A2"}`, "nonsense"} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "shop.orders", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	line := "init --brokers " + cluster.ListenAddrs()[0] + " --topic shop.orders --sasl SCRAM-SHA-512 --username feedsink --password-file password --out orders.yaml"
	code, out, failed := d.run(line)
	if code != 0 || !strings.Contains(out, "wrote orders.yaml; 5 of its lines say DECIDE") || !strings.Contains(out, "feedsink plan -c orders.yaml --show") {
		t.Fatalf("got code %d, %q %s, want what to do next", code, out, failed)
	}
	written, err := os.ReadFile("orders.yaml")
	if err != nil || !strings.Contains(string(written), "# 1 more could not be read") || strings.Count(string(written), "DECIDE") != 6 {
		t.Errorf("got %v\n%s\nwant six times DECIDE, one of them in the head, and the record that could not be read", err, written)
	}
	if code, out, failed := d.run("plan -c orders.yaml"); code != 0 {
		t.Errorf("plan gets in as it is written there: got code %d, %s %s", code, out, failed)
	}
	for flags, want := range map[string]string{
		"--ca-file password":         "want --tls",
		"--tls --cert-file password": "--cert-file, --key-file: want one another",
		"--username me":              "--username, --password-file: want one another",
		"--sasl PLAIN":               "--username: is required; PLAIN needs --username and --password-file",
		"--sasl PLAIM --username me --password-file password":                                            "did you mean PLAIN?",
		"--sasl PLAIN --username me --password-file password":                                            "--sasl: PLAIN would send its secret without encryption; add --tls, or --allow-plaintext if",
		"--tls --sasl OAUTHBEARER":                                                                       "--client-id: is required; OAUTHBEARER needs --token-url, --client-id and --client-secret-file, or --token-file",
		"--tls --sasl OAUTHBEARER --token-file password --client-id me":                                  "--token-file: only one of --token-file and --token-url can be given",
		"--tls --sasl OAUTHBEARER --token-file /none":                                                    "--token-file: names no readable file: ",
		"--tls --sasl OAUTHBEARER --token-file password --extension ab":                                  "--extension[0]: must be name=value",
		"--tls --sasl OAUTHBEARER --token-url http://login --client-id me --client-secret-file password": "--token-url: would send secrets over plain HTTP",
		"--brokers username":                       "--brokers[1]: must be host:port, is \"username\"",
		"--sasl AWS_MSK_IAM":                       "--tls: is required with AWS_MSK_IAM",
		"--tls --sasl AWS_MSK_IAM --scope kafka":   "--token-url and what belongs to it: has no part in AWS_MSK_IAM",
		"--registry-username me":                   "--registry-username, --registry-password-file: want one another",
		"--registry http://user:s3cret@registry:1": "--registry: must be an address without a user or password",
	} {
		if code, _, failed := d.run("init --brokers x:1 --topic a " + flags); code != 2 || !strings.Contains(failed, want) || strings.Contains(failed, "s3cret") {
			t.Errorf("%s: got code %d, %q, want 2 and %q", flags, code, failed, want)
		}
	}
}
