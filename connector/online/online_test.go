package online

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/router"
)

// world is a broker, a service and a configuration that works with them.
type world struct {
	t       *testing.T
	cluster *kfake.Cluster
	service *sandbox.Sandbox
	cfg     *config.Config
}

// newWorld has the topics orders and feedsink.dlq.
func newWorld(t *testing.T, opts ...kfake.Opt) *world {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, "shop.orders", "feedsink.dlq")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	service, err := sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{"key"}, KeepCalls: 100, Dir: t.TempDir(), SlotsPerDay: 12,
		Tables: []sandbox.Table{{Name: "orders", Custom: true, Open: true}, {Name: "customers", Keys: []string{"id"}, Open: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := service.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Close(), service.Close() })
	return &world{t, cluster, service, &config.Config{
		Kafka: config.Kafka{Brokers: cluster.ListenAddrs(), Group: "feedsink"},
		Service: config.Service{
			BaseURL: server.URL(), AuthURL: server.URL(), Entity: "acme", APIKey: config.NewSecret("key"), Timeout: 5 * time.Second,
		},
		DLQ:   config.DLQ{Topic: "feedsink.dlq", Flood: config.Flood{Records: 10, Share: 0.9}},
		Spool: config.Spool{Dir: filepath.Join(t.TempDir(), "spool")},
		Admin: config.Admin{Listen: "127.0.0.1:0"},
		Mappings: []router.Mapping{{
			Name: "orders", Topics: []string{"shop.orders"}, CustomTable: "orders", Key: "businessKey",
			Fields: []router.Field{{From: "id", To: "businessKey"}, {From: "total", To: "total", As: "number"}},
			Routes: []router.Route{{Lane: "immediate"}},
		}},
	}}
}

func (w *world) produce(topic string, values ...string) {
	w.t.Helper()
	w.produceKeyed(topic, "", values...)
}

func (w *world) produceKeyed(topic, key string, values ...string) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(w.t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(v)}).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// expect runs all checks and wants one, of which it knows how it begins, to hold a text.
func (w *world) expect(begins, holds string) {
	w.t.Helper()
	var all []string
	for _, c := range Run(w.t.Context(), w.cfg, 200) {
		line := c.String()
		if strings.HasPrefix(line, begins) && strings.Contains(line, holds) {
			return
		}
		all = append(all, line)
	}
	w.t.Errorf("got\n%s\nwant %s … %s", strings.Join(all, "\n"), begins, holds)
}

func TestEverythingThatIsThereIsFoundAndNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	w.produce("shop.orders", `{"id":"o1","total":1}`)
	for _, c := range Run(t.Context(), w.cfg, 200) {
		if c.Result != OK {
			t.Errorf("got %v, want OK", c)
		}
	}
	for _, call := range w.service.Calls() {
		if call.Applied && call.Op != 14 {
			t.Errorf("the service applied operation %d, want nothing but the token", call.Op)
		}
	}
	admin := newAdmin(t, w)
	if groups, err := admin.ListGroups(t.Context()); err != nil || len(groups) > 0 {
		t.Errorf("groups: got %v, %v, want none", groups.Groups(), err)
	}
	if ends, err := admin.ListEndOffsets(t.Context(), "feedsink.dlq"); err != nil || ends["feedsink.dlq"][0].Offset+ends["feedsink.dlq"][1].Offset > 0 {
		t.Errorf("dead letters: got %v, %v, want none", ends, err)
	}
	if _, err := os.Stat(w.cfg.Spool.Dir); err == nil {
		t.Error("the spool's directory was created")
	}
}

func TestBrokersThatDoNotAnswerBesideOneThatDoesAreWarnedOf(t *testing.T) {
	w := newWorld(t)
	w.produce("shop.orders", `{"id":"o1","total":1}`)
	dead := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	w.cfg.Kafka.Brokers = append(dead, w.cfg.Kafka.Brokers...)
	warned := 0
	for _, c := range Run(t.Context(), w.cfg, 200) {
		switch {
		case c.Result == Warn && strings.HasPrefix(c.What, "broker 127.0.0.1:") && strings.HasSuffix(c.Detail, "; a sink runs all the same, as others of kafka.brokers answer"):
			warned++
		case c.Result != OK:
			t.Errorf("got %v, want OK", c)
		}
	}
	if warned != len(dead) {
		t.Errorf("got %d warnings, want one for each of %v", warned, dead)
	}
}

func TestDiskOfTheSpoolIsLookedAt(t *testing.T) {
	for _, tc := range []struct {
		free, size int64
		want       Check
	}{
		{30 << 30, 100 << 30, Check{"spool", OK, "it can be written; 30.0 GiB of its disk are free"}},
		{0, 100 << 30, Check{"spool", Fail, "0 bytes of its disk are free, so no row can be written; make room, or name a directory on another disk"}},
		{1<<20 - 4096, 1 << 20, Check{"spool", Fail, "1020.0 KiB of its disk are free, so no row can be written; make room, or name a directory on another disk"}},
		{5 << 20, 8 << 20, Check{"spool", Warn, "5.0 MiB of its disk are free, and the disk has 8.0 MiB in all, less than spool.maxBytes (1GiB): " +
			"it is full before the batch lane pauses; lower spool.maxBytes, or take a larger disk"}},
	} {
		if got := roomCheck("spool", tc.free, tc.size, 1<<30); got != tc.want {
			t.Errorf("%d of %d: got %v\nwant %v", tc.free, tc.size, got, tc.want)
		}
	}
	if got := spoolCheck(config.Spool{Dir: t.TempDir(), MaxBytes: 1 << 60}); got.Result != Warn {
		t.Errorf("got %v, want a warning of a disk below maxBytes", got)
	}
}

func TestMissingTopicsAreAllNamedWithThoseThatAreNear(t *testing.T) {
	w := newWorld(t)
	w.cfg.Mappings[0].Topics = []string{"shop.order", "orders", "xyz"}
	w.cfg.DLQ.Topic = "feedsink.dql"
	w.expect("FAIL        topic shop.order:", `it does not exist; create it, or correct the name, did you mean "shop.orders"?`)
	w.expect("FAIL        topic orders:", `did you mean "shop.orders"?`)
	w.expect("FAIL        topic xyz:", "it does not exist; create it, or correct the name")
	w.expect("FAIL        dead-letter topic feedsink.dql:", `did you mean "feedsink.dlq"?`)
	if topics, err := newAdmin(t, w).ListTopics(t.Context()); err != nil || len(topics) != 2 {
		t.Errorf("got %v, %v, want no topic created", topics.Names(), err)
	}
}

// allowed is a right of the user feedsink.
func allowed(kind kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
}

// login has the configuration log in as feedsink.
func (w *world) login() *world {
	w.cfg.Kafka.SASL = config.SASL{Mechanism: "PLAIN", Username: "feedsink", PasswordFile: filepath.Join(w.t.TempDir(), "password"), AllowPlaintext: true}
	if err := os.WriteFile(w.cfg.Kafka.SASL.PasswordFile, []byte("s3cret"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return w
}

func secured(acls ...kfake.ACL) []kfake.Opt {
	return []kfake.Opt{kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "feedsink", "s3cret", acls...)}
}

func TestRightsThatLackAreNamed(t *testing.T) {
	const topic, group = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
	const read, write, describe = kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe
	w := newWorld(t, secured()...).login()
	w.expect("FAIL        topic shop.orders:", "it cannot be seen, if it exists; grant the login READ and DESCRIBE on the topic shop.orders")
	w.expect("FAIL        dead-letter topic feedsink.dlq:", "grant the login WRITE and DESCRIBE on the topic feedsink.dlq")
	w.expect("FAIL        group feedsink-immediate:", "grant the login READ and DESCRIBE on the group feedsink-immediate")
	w.expect("FAIL        group feedsink-batch:", "grant the login DESCRIBE on the group feedsink-batch")
	w = newWorld(t, secured(allowed(topic, "shop.orders", describe), allowed(topic, "feedsink.dlq", read), allowed(group, "feedsink-immediate", describe))...).login()
	w.expect("FAIL        topic shop.orders: 2 partitions,", "the login lacks READ; grant the login READ on the topic shop.orders (deploy/kafka-acls.md)")
	w.expect("FAIL        dead-letter topic feedsink.dlq: 2 partitions,", "the login lacks WRITE; grant")
	w.expect("FAIL        group feedsink-immediate: ", "the login lacks READ; grant")
	w = newWorld(t, secured(allowed(topic, "shop.orders", read), allowed(topic, "feedsink.dlq", write),
		allowed(group, "feedsink-immediate", read), allowed(group, "feedsink-batch", describe))...).login()
	for _, c := range Run(t.Context(), w.cfg, 200) {
		if c.Result == Fail {
			t.Errorf("with the rights of deploy/kafka-acls.md: got %v", c)
		}
	}
}

func TestBrokerThatCannotBeReachedSaysWhatToDo(t *testing.T) {
	const closed = "127.0.0.1:1" // nobody is given this port
	w := newWorld(t, secured()...).login()
	w.cfg.Kafka.Brokers = append(w.cfg.Kafka.Brokers, closed)
	w.expect("WARN        broker "+closed, "nothing listens at this port; correct kafka.brokers")
	w.expect("OK          broker "+w.cfg.Kafka.Brokers[0], "")
	w.cfg.Kafka.SASL.Username = "other"
	w.expect("FAIL        broker "+w.cfg.Kafka.Brokers[0], "kafka.sasl") // the embedded broker hangs up
	w.expect("NOT CHECKED topics, groups and records", "no broker answers")
	w.cfg.Kafka.SASL.Mechanism = "OAUTHBEARER"
	w.cfg.Kafka.SASL.OAuth.TokenFile = w.cfg.Kafka.SASL.PasswordFile
	w.expect("FAIL        broker "+w.cfg.Kafka.Brokers[0], "correct kafka.sasl.mechanism")
	w.cfg.Kafka.SASL = config.SASL{}
	w.expect("FAIL        broker "+w.cfg.Kafka.Brokers[0], "a login (kafka.sasl)")
	w.cfg.Kafka.TLS.Enabled = true
	w.expect("FAIL        broker "+w.cfg.Kafka.Brokers[0], "TLS")
}

func TestLastRecordsThatNoAddressCanNameAreDeadLetters(t *testing.T) {
	w := newWorld(t)
	w.cfg.Mappings[0].Op = "patch"
	w.produce("shop.orders", append(slices.Repeat([]string{`{"id":"o1","total":1}`}, 19), `{"id":"..","total":1}`)...)
	w.expect("WARN        last records of orders: 1 of 20 (5 %) would be dead letters:", `1 rejected (an id or name that is empty, "." or ".." cannot be part of an address)`)
}

func TestLastRecordsSayWhatWouldBecomeOfThem(t *testing.T) {
	w := newWorld(t)
	w.expect("NOT CHECKED last records of orders", "there are none")
	w.produce("shop.orders", slices.Repeat([]string{`{"id":"o1","total":1}`}, 20)...)
	w.produce("shop.orders", `{"id":"Smith","total":"much"}`, `nonsense`, `{"total":1}`)
	w.expect("WARN        last records of orders: 3 of 23 (13 %) would be dead letters:", "1 value (total: must be a number: ")
	w.cfg.DLQ.Topic = ""
	w.expect("FAIL        last records of orders", "without dlq.topic each of them halts its partition")
	w.expect("WARN        dead-letter topic", "halts its partition")
	w.cfg.DLQ.Topic = "feedsink.dlq"
	w.produce("shop.orders", slices.Repeat([]string{`{"id":"Smith","total":"much"}`}, 40)...)
	w.expect("FAIL        last records of orders", "the mapping would halt by dlq.flood")
	for _, c := range Run(t.Context(), w.cfg, 200) {
		if strings.Contains(c.Detail, "Smith") || strings.Contains(c.Detail, "much") {
			t.Errorf("got %v, want no customer's data", c)
		}
	}
}

func TestFieldsThatNoRecordHasAreToldWithThoseThatAreNear(t *testing.T) {
	w := newWorld(t)
	w.cfg.Mappings[0].Fields = append(w.cfg.Mappings[0].Fields, router.Field{From: "statuss", To: "status"}, router.Field{Expr: "totall * 2", To: "twice"},
		router.Field{From: "Smith", To: "other"})
	w.produce("shop.orders", slices.Repeat([]string{`{"id":"o1","total":1,"status":"paid"}`}, 4)...)
	for _, c := range Run(t.Context(), w.cfg, 200) {
		if strings.HasPrefix(c.What, "fields of ") {
			t.Errorf("of four records: got %v, want nothing", c)
		}
	}
	w.produce("shop.orders", slices.Repeat([]string{`{"id":"o1","total":1,"status":"Smith"}`}, 4)...)
	w.expect("WARN        fields of orders: none of 8 records has", `"statuss" (fields[2].from); did you mean "status"?`)
	w.expect("WARN        fields of orders:", `none of 8 records has "totall" (fields[3].expr); did you mean "total"?`)
	w.expect("WARN        fields of orders:", `no record has "Smith" (fields[4].from); correct the path, or leave it if records are to come that have it`)
	w.expect("OK          last records of orders: 8 read", "")
}

func TestTopicOfWhichAllRecordsAreSkippedIsTold(t *testing.T) {
	w := newWorld(t)
	w.cfg.Mappings[0].When = `value.status == "done"`
	w.produce("shop.orders", slices.Repeat([]string{`{"id":"o1","total":1,"status":"paid"}`}, 8)...)
	const correct = "if they are wanted, correct the condition: a name or a value in it may be misspelt"
	w.expect("WARN        records of topic shop.orders: all 8 that were read are skipped:", "for 8 of them no mapping's when is true; "+correct)
	w.expect("NOT CHECKED last records of orders:", "none of the 8 read is the mapping's: its when is true for none")
	w.cfg.Mappings[0].When = ""
	w.cfg.Mappings[0].Routes = []router.Route{{When: `value.status != "done"`, Lane: "skip"}, {Lane: "immediate"}}
	w.expect("WARN        records of topic shop.orders: all 8 that were read are skipped:", "the lane skip takes them by routes[0] of orders; "+correct)
	w.expect("NOT CHECKED last records of orders:", "all 8 read are skipped by its routes")
	w.produce("shop.orders", `{"id":"o1","total":1,"status":"done"}`)
	for _, c := range Run(t.Context(), w.cfg, 200) {
		if strings.HasPrefix(c.What, "records of topic ") {
			t.Errorf("one is not skipped: got %v", c)
		}
	}
}

func TestRouteWithoutEffectIsTold(t *testing.T) {
	w := newWorld(t, kfake.SeedTopics(1, "crm.customers"))
	w.cfg.Mappings = append(w.cfg.Mappings, router.Mapping{
		Name: "customers", Topics: []string{"crm.customers"}, ProfileTable: "customers", Key: "id", Routes: []router.Route{{Lane: "immediate"}},
		Imports: router.Imports{
			Patch: &router.Import{ETL: "1", Mode: "UPDATE_ONLY", IgnoresEmpty: true},
			Merge: &router.Import{ETL: "2", Mode: "CREATE_OR_UPDATE", IgnoresEmpty: true}, Columns: []router.Column{{Name: "id"}, {Name: "a"}},
			Roll: router.Roll{Rows: 1}, SlotsPerDay: 12, Timezone: "UTC",
		},
	})
	w.produce("crm.customers", `{"op":"patch","key":{"id":"1"},"attributes":{"a":"b"}}`, `{"op":"patch","key":{"id":"1"},"profileId":"p1","attributes":{"a":"b"}}`,
		`{"op":"merge","key":{"id":"1"},"profileId":"p1","attributes":{"a":"b"}}`)
	w.expect("WARN        routes of customers: routes[0] leads to calls, but 1 of 1 writes of the op merge go by file", "a profile is merged only by an import; make the route's lane batch")
	w.expect("WARN        routes of customers: routes[0] leads to calls, but 1 of 2 writes of the op patch go by file", "name its path in profileId")
	w.expect("NOT CHECKED ETL 1 for patch of customers", "the interface has no operation that shows an ETL")
	w.expect("NOT CHECKED table customers of customers", "no operation that reads of profile tables")
}

func TestKafkaKeysThatDoNotSayTheRowsKeyAreTold(t *testing.T) {
	w := newWorld(t)
	m := &w.cfg.Mappings[0]
	m.Envelope, m.KafkaKey, m.Fields = "debezium", "json", []router.Field{{From: "mail", To: "businessKey"}, {From: "total", To: "total"}}
	const event = `{"op":"u","source":{},"before":{"id":1,"mail":"a@b.c"},"after":{"id":1,"mail":"d@b.c","total":2}}`
	w.produceKeyed("shop.orders", `{"mail":"d@b.c"}`, event)
	for _, c := range Run(t.Context(), w.cfg, 200) {
		if strings.HasPrefix(c.What, "keys of ") {
			t.Errorf("of keys that do: got %v, want nothing", c)
		}
	}
	w.produceKeyed("shop.orders", `{"id":1}`, event)
	w.expect("WARN        keys of orders: the Kafka key of 1 of 2 records does not say the row's businessKey:", "message.key.columns")
}

func newAdmin(t *testing.T, w *world) *kadmClient {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return newKadm(client)
}

// guarded is a registry behind TLS that wants a login, and the configuration that
// reaches it.
func (w *world) guarded() *srfake.Registry {
	w.t.Helper()
	registry := srfake.NewRegistry()
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "s3cret" {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		registry.Handler().ServeHTTP(rw, r)
	}))
	w.t.Cleanup(server.Close)
	dir := w.t.TempDir()
	files := map[string][]byte{
		"ca.pem":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		"password": []byte("s3cret\n"),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.cfg.SchemaRegistry = config.SchemaRegistry{
		URL: config.NewAddress(server.URL), Username: "me", PasswordFile: filepath.Join(dir, "password"),
		TLS: config.Certificates{CAFile: filepath.Join(dir, "ca.pem")},
	}
	w.cfg.Mappings[0].Topics = []string{"sales", "returns", "odd", "lost"}
	w.cfg.Mappings[0].Format, w.cfg.Mappings[0].KafkaKey = "avro", "avro"
	return registry
}

func TestRegistryIsAskedForEachTopicThatNeedsIt(t *testing.T) {
	w := newWorld(t)
	registry := w.guarded()
	registry.SeedSchema("sales-value", 1, 1, sr.Schema{Schema: `"int"`})
	registry.SeedSchema("returns-value", 1, 2, sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON})
	registry.SeedSchema("odd-value", 1, 3, sr.Schema{Schema: `{"type":"nothing"}`})
	registry.SeedSchema("sales-key", 1, 4, sr.Schema{Schema: `"string"`})
	w.expect("OK          schemas of sales-value:", "1 registered, and the newest can be read with")
	w.expect("OK          schemas of sales-key:", "1 registered")
	w.expect("FAIL        schemas of returns-value:", "the newest is of the format json-schema, but the mapping reads avro")
	w.expect("FAIL        schemas of odd-value:", "nothing can be read with the newest of 1: ")
	w.expect("WARN        schemas of lost-value:", "the registry has no such subject")
}

func TestRegistryThatCannotBeAskedFailsTheCheck(t *testing.T) {
	for name, change := range map[string]func(*config.SchemaRegistry){
		"a wrong login":        func(s *config.SchemaRegistry) { s.Username = "you" },
		"no password any more": func(s *config.SchemaRegistry) { s.PasswordFile += ".gone" },
		"an unknown authority": func(s *config.SchemaRegistry) { s.TLS = config.Certificates{} },
		"no authority at all":  func(s *config.SchemaRegistry) { s.TLS.CAFile = s.PasswordFile },
		"nothing there":        func(s *config.SchemaRegistry) { s.URL = config.NewAddress("http://127.0.0.1:1") },
	} {
		w := newWorld(t)
		w.guarded()
		change(&w.cfg.SchemaRegistry)
		checks := checker{ctx: t.Context(), cfg: w.cfg, router: compiled(t, w.cfg)}.registry()
		for _, c := range checks {
			if c.Result != Fail || c.Detail == "" || strings.Contains(c.Detail, "s3cret") {
				t.Errorf("%s: got %v, want why it failed", name, c)
			}
		}
		if len(checks) != 8 {
			t.Errorf("%s: got %d checks, want one for values and keys of each topic", name, len(checks))
		}
	}
}
