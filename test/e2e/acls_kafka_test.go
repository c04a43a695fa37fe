//go:build kafka && !image

package e2e_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/test/kafka"
)

// TestDocumentedRightsSuffice gives a login what the commands of deploy/kafka-acls.md give it
// and nothing else: the sink runs. Each right that is withdrawn is one that check --online
// misses.
func TestDocumentedRightsSuffice(t *testing.T) {
	t.Parallel()
	if os.Getenv(throughVariable) != "" {
		return // it has a broker and a listener of its own
	}
	r, err := newRelay()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	b := kafka.ForTest(t, kafka.Options{
		Config: map[string]string{
			"authorizer.class.name":   "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":             "User:ANONYMOUS", // the broker itself, and the test's own clients
			"sasl.enabled.mechanisms": "PLAIN",
		},
		Secured: []kafka.Secured{{Name: "LOGIN", Protocol: "SASL_PLAINTEXT", Front: r.address(), Config: map[string]string{
			"sasl.enabled.mechanisms": "PLAIN",
			"plain.sasl.jaas.config":  loginOf + `plain.PlainLoginModule required user_feedsink="` + password + `";`,
		}}},
	})
	r.lead(b.Behind(r.address()))
	files := secrets{t.TempDir()}
	files.write(t, "feedsink.password", []byte(password))
	w := newWorldThrough(t, access{
		brokers: []string{r.address()}, own: []kgo.Opt{kgo.SeedBrokers(b.Addr())},
		keys: strings.Replace(files.known("PLAIN", "feedsink"), "}", ", allowPlaintext: true}", 1),
	}, nil)
	for topic, n := range map[string]int32{"crm.customers": partitions, "shop.orders": partitions, "feedsink.dlq": 1} {
		if _, err := w.admin.CreateTopic(t.Context(), n, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range documentedCommands(t, b) {
		if _, err := b.Exec(t.Context(), nil, args[0], args[1:]...); err != nil {
			t.Fatal(err)
		}
	}

	sink := w.run(strings.NewReplacer("${PREFIX}customers", "crm.customers", "${PREFIX}orders", "shop.orders", "${PREFIX}dlq", "feedsink.dlq", "${PREFIX}sink", "feedsink").Replace(head + deadLetters + mappings))
	records := []*kgo.Record{customer("C1", "gold", 1), customer("C2", "basic", 2), order("o1", "PAID", 3), event("orders", "broken", `{`)}
	for _, r := range records {
		r.Topic = map[string]string{"customers": "crm.customers", "orders": "shop.orders"}[r.Topic]
	}
	if err := w.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.until("both lanes have written", func() bool { return w.service.Len("customers") == 2 && w.service.Len("orders") == 1 })
	w.until("both groups have committed all of it", func() bool {
		lags, err := w.admin.Lag(t.Context(), "feedsink-immediate", "feedsink-batch")
		return err == nil && lags.Ok() && len(lags) == 2 && !slices.ContainsFunc(lags.Sorted(), func(l kadm.DescribedGroupLag) bool { return l.Lag.Total() > 0 })
	})
	ends, err := w.admin.ListEndOffsets(t.Context(), "feedsink.dlq")
	if err != nil || ends["feedsink.dlq"][0].Offset != 1 {
		t.Errorf("dead letters: got %v, %v, want one", ends, err)
	}
	if out, code := w.execute("check --online"); code != 0 || strings.Contains(out, "FAIL") {
		t.Errorf("check --online with the documented rights: got exit code %d, want 0:\n%s", code, out)
	}
	sink.terminate(t)

	for _, c := range []struct {
		rights *kadm.ACLBuilder
		says   string
	}{
		{kadm.NewACLs().Topics("crm.customers").Operations(kadm.OpRead), "grant the login READ on the topic crm.customers"},
		{kadm.NewACLs().Topics("shop.orders").Operations(kadm.OpRead, kadm.OpDescribe), "grant the login READ and DESCRIBE on the topic shop.orders"},
		{kadm.NewACLs().Topics("feedsink.dlq").Operations(kadm.OpWrite), "grant the login WRITE on the topic feedsink.dlq"},
		{kadm.NewACLs().Groups("feedsink-immediate").Operations(kadm.OpRead), "grant the login READ on the group feedsink-immediate"},
		{kadm.NewACLs().Groups("feedsink-batch").Operations(kadm.OpRead, kadm.OpDescribe), "grant the login READ and DESCRIBE on the group feedsink-batch"},
	} {
		rights := c.rights.Allow("User:feedsink").ResourcePatternType(kadm.ACLPatternLiteral)
		if _, err := w.admin.DeleteACLs(t.Context(), rights.AllowHosts()); err != nil {
			t.Fatal(err)
		}
		w.until("check --online says: "+c.says, func() bool {
			out, code := w.execute("check --online")
			return code == 1 && strings.Contains(out, c.says) && strings.Count(out, "FAIL") == 1
		})
		if _, err := w.admin.CreateACLs(t.Context(), rights); err != nil {
			t.Fatal(err)
		}
	}
	w.until("nothing is missing again", func() bool {
		_, code := w.execute("check --online")
		return code == 0
	})
}

// documentedCommands are the tools and arguments of the first block of commands in
// deploy/kafka-acls.md, for the broker.
func documentedCommands(t *testing.T, b *kafka.Broker) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kafka-acls.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	if err := b.Put(t.Context(), "/tmp/admin.properties", []byte("# nothing: the listener wants no login\n")); err != nil {
		t.Fatal(err)
	}
	begin, commands, ok := strings.Cut(block, "\n")
	begin, found := strings.CutPrefix(begin, `acls="`)
	if !ok || !found {
		t.Fatalf("deploy/kafka-acls.md begins its commands with %q, want acls=", begin)
	}
	begin = strings.NewReplacer("broker:9092", b.Addr(), "admin.properties", "/tmp/admin.properties", `"`, "").Replace(begin)
	for line := range strings.Lines(commands) {
		rest, ok := strings.CutPrefix(line, "$acls ")
		if !ok {
			t.Fatalf("deploy/kafka-acls.md: got %q, want a line that begins with $acls", line)
		}
		all = append(all, strings.Fields(begin+" "+rest))
	}
	if len(all) < 5 {
		t.Fatalf("deploy/kafka-acls.md: got %d commands, want those of three topics and two groups", len(all))
	}
	return all
}
