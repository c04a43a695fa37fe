//go:build kafka

package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestKafkasOwnToolsSeeBothGroups feeds the sink with Kafka's console producer
// and looks at it with Kafka's consumer-groups tool, as an operator would.
func TestKafkasOwnToolsSeeBothGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Hold() // executions stay IN_PROGRESS
	sink := w.run(head + deadLetters + mappings)
	tool := func(stdin, name string, args ...string) string {
		t.Helper()
		out, err := broker.Exec(t.Context(), strings.NewReader(stdin), name, append([]string{"--bootstrap-server", broker.Addr()}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var lines strings.Builder
	for i := range 100 {
		tier := "basic"
		if i%2 == 0 {
			tier = "gold"
		}
		fmt.Fprintf(&lines, "C%d\t%s\n", i, customer(fmt.Sprintf("C%d", i), tier, i).Value)
	}
	tool(lines.String(), "kafka-console-producer.sh", "--topic", w.topic("customers"),
		"--reader-property", "parse.key=true")
	lag := func(lane string) int {
		t.Helper()
		return sumOfLags(t, tool("", "kafka-consumer-groups.sh", "--describe", "--group", w.prefix+"sink-"+lane), w.topic("customers"))
	}
	w.until("gold customers arrive by calls", func() bool { return w.service.Len("customers") == 50 })
	w.until("an import is in progress", func() bool { return len(w.service.Executions()) == 1 })
	w.until("the immediate group is at the end of the log", func() bool { return lag("immediate") == 0 })
	if got := lag("batch"); got == 0 {
		t.Error("the batch group is at the end of the log while its import is IN_PROGRESS")
	}
	w.service.Release()
	w.until("the batch group is at the end of the log", func() bool { return lag("batch") == 0 })
	if got := w.service.Executions()[0].Status; got != sandbox.Finished {
		t.Errorf("import: got %s, want %s", got, sandbox.Finished)
	}
	if got := w.service.Len("customers"); got != 100 {
		t.Errorf("customers: got %d, want 100", got)
	}
	sink.terminate(t)
}

// sumOfLags reads the LAG column of a topic's partitions.
func sumOfLags(t *testing.T, described, topic string) (sum int) {
	t.Helper()
	column := -1
	for line := range strings.Lines(described) {
		fields := strings.Fields(line)
		for i, f := range fields {
			if f == "LAG" {
				column = i
			}
		}
		if column < 0 || len(fields) <= column || fields[1] != topic {
			continue
		}
		n, err := strconv.Atoi(fields[column])
		if err != nil {
			t.Fatalf("lag: %v in\n%s", err, described)
		}
		sum += n
	}
	if column < 0 {
		t.Fatalf("no lag in\n%s", described)
	}
	return sum
}
