package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/feedsink/feedsink/connector/replay"
)

func TestErrorsOfKafkaSayWhatToDo(t *testing.T) {
	d := newHost(t)
	const refused = "connection refused; nothing listens at this port; correct kafka.brokers, or start the broker"
	expect := func(line, want string) {
		t.Helper()
		if code, _, failed := d.run(line); code != exitFailed || !strings.HasSuffix(failed, want) {
			t.Errorf("%s: got code %d, %q, want … %q", line, code, failed, want)
		}
	}
	expect("plan", refused)
	expect("init --brokers 127.0.0.1:1 --topic walk.nope", strings.ReplaceAll(refused, "kafka.brokers", "--brokers"))
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "crm.customer"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	d.change("127.0.0.1:1", broker)
	const missing = `topic crm.customers does not exist; create it, or correct the name, did you mean "crm.customer"?`
	expect("plan", missing)
	expect("why --mapping customers C1", missing)
	expect("init --brokers "+broker+" --topic walk.nope", "topic walk.nope does not exist; create it, or correct the name")
	expect("init --brokers "+broker+" --topic crm.customers", missing)
	d.change("kafka:", "dlq: {topic: feedsink.dlq}\nkafka:")
	d.change("upsert: {mode", "upsert: {etl: \"8\", mode")
	expect("dlq list", "topic feedsink.dlq does not exist; create it, or correct the name")
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closing.Close() })
	go func() {
		for conn, err := closing.Accept(); err == nil; conn, err = closing.Accept() {
			_ = conn.Close()
		}
	}()
	expect("init --tls --brokers "+closing.Addr().String()+" --topic crm.customer",
		"the listener may not speak TLS: leave out --tls, or take the port of its TLS listener; or it refuses the client's certificate (--cert-file)")
}

func TestErrorsOfOthersGetNoAdviceOfKafka(t *testing.T) {
	for _, err := range []error{errors.New("x"), fmt.Errorf("x: %w", &usageError{errors.New("y")}), nil} {
		if got := advised(err); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
}

func TestWithoutABrokerCommandsNameThoseThatTheyAskedAndPrintNoReport(t *testing.T) {
	d := newHost(t)
	d.change("kafka:", "dlq: {topic: feedsink.dlq}\nreceipts: {topic: feedsink.receipts}\nkafka:")
	d.change("upsert: {mode", "upsert: {etl: \"8\", mode")
	d.change(`"127.0.0.1:1"`, `"127.0.0.1:1", "127.0.0.1:2"`)
	d.change("mappings:", "mappings:\n  - {name: orders, topics: [shop.orders], customTable: orders, key: businessKey, fields: [{from: id, to: businessKey}], routes: [{lane: immediate}]}")
	for _, line := range []string{
		"dlq list", "dlq replay", "dlq replay --dry-run", "dlq discard --reason gone", "backfill --mapping customers --since 1d",
		"why --mapping customers C1", "verify --mapping customers", "verify --mapping orders", "forget --mapping customers C1", "plan", "audit",
	} {
		for _, form := range []string{"text", "json"} {
			code, out, failed := d.run(line + " -o " + form)
			if code != exitFailed || out != "" || !strings.HasPrefix(failed, "no broker can be asked: 127.0.0.1:") ||
				!strings.Contains(failed, "127.0.0.1:1: ") || !strings.Contains(failed, "127.0.0.1:2: ") || !strings.HasSuffix(failed, "; nothing listens at this port; correct kafka.brokers, or start the broker") {
				t.Errorf("%s -o %s: got code %d, %q and %q", line, form, code, out, failed)
			}
		}
	}
}

func TestReportOfACommandThatDidNotEndHasTheError(t *testing.T) {
	for _, found := range []int{0, 3} {
		cmd, printed := &cobra.Command{}, &bytes.Buffer{}
		cmd.SetOut(printed)
		outputFlag(cmd)
		_ = cmd.Flags().Set("output", "json") // the flag is there
		report := replay.Report{Selected: found}
		err := printUnfinished(cmd, &report, &report.Error, errors.New("the service does not answer"))
		if err == nil || strings.Contains(printed.String(), `"error": "the service does not answer"`) != (found > 0) || (printed.Len() > 0) != (found > 0) {
			t.Errorf("%d found: got %v and %s", found, err, printed)
		}
	}
}
