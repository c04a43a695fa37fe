package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// chaos is a service at its worst: whether a call was applied and what was
// answered are two different things.
func chaos() []sandbox.Fault {
	return []sandbox.Fault{
		{Match: sandbox.Match{Probability: 0.04}, Answer: sandbox.Status(503)},
		{Match: sandbox.Match{Probability: 0.01}, Answer: sandbox.StatusAfter(429, time.Second)},
		{Match: sandbox.Match{Probability: 0.02}, Answer: sandbox.Reset()},
		{Match: sandbox.Match{Probability: 0.02}, Apply: true, Answer: sandbox.Reset()},
		{Match: sandbox.Match{Probability: 0.01}, Apply: true, Answer: sandbox.Status(500)},
		{Match: sandbox.Match{Probability: 0.001}, Apply: true, Answer: sandbox.Hang(5 * time.Second)},
		{Match: sandbox.Match{Probability: 0.001}, Answer: sandbox.Hang(5 * time.Second)},
	}
}

func TestEveryEventSurvivesAServiceAtItsWorst(t *testing.T) {
	t.Parallel()
	const events, keys = 20_000, 400
	w := newWorld(t, func(c *sandbox.Config) { c.TokenLifetime = 3 * time.Second })
	w.service.Chaos(7, chaos()...)
	w.start(head + deadLetters + mappings)
	rnd := rand.New(rand.NewPCG(1, 1))
	last := map[string]map[string]int{"customers": {}, "orders": {}}
	for seq := 0; seq < events; {
		batch := make([]*kgo.Record, 500)
		for i := range batch {
			seq++
			key := fmt.Sprintf("K%03d", rnd.IntN(keys))
			table := "orders"
			if rnd.IntN(2) == 0 {
				table = "customers"
				batch[i] = customer(key, tierOf(key), seq)
			} else {
				batch[i] = order(key, "PAID", seq)
			}
			last[table][key] = seq
		}
		w.produce(batch...)
	}
	w.settled()
	for table, keys := range last {
		rows := w.service.Rows(table)
		for key, seq := range keys {
			row := rows[key]
			if got := row.Text("seq"); got != strconv.Itoa(seq) {
				t.Errorf("%s %s: got seq %q, want %d", table, key, got, seq)
			}
		}
	}
	inOrder(t, w.service.Calls())
	if got := w.dead(); len(got) != 0 {
		t.Errorf("dead letters: got %d, want none", len(got))
	}
}

// tierOf keeps a customer in one lane.
func tierOf(key string) string {
	if key[len(key)-1]%2 == 0 {
		return "gold"
	}
	return "basic"
}

// inOrder checks in the service's log that no key ever went back to an earlier
// event. Repetitions of one event are allowed: their answers were lost.
func inOrder(t *testing.T, calls []sandbox.Call) {
	t.Helper()
	last := map[string]int{}
	checked := 0
	for _, c := range calls {
		if !c.Applied || c.Op > 7 {
			continue
		}
		seq, err := strconv.Atoi(fmt.Sprint(c.Values["seq"]))
		if err != nil {
			t.Fatalf("call %d carries no seq: %v", c.Seq, err)
		}
		name := c.Table + " " + c.Key
		if seq < last[name] {
			t.Errorf("%s: event %d was applied after %d", name, seq, last[name])
		}
		last[name] = seq
		checked++
	}
	if checked == 0 {
		t.Error("the call log shows no call that was applied")
	}
}

func TestBadRecordsBecomeDeadLettersByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	// Two profiles that share no key with each other, and an event that names
	// one key of each.
	w.start(head + deadLetters + mappings)
	w.produce(
		event("customers", "A", `{"key":{"customerNumber":"A"},"attributes":{"emailAddress":"a@example.com"},"segments":{"tier":"gold"}}`),
		event("customers", "B", `{"key":{"customerNumber":"B"},"attributes":{"emailAddress":"b@example.com"},"segments":{"tier":"gold"}}`))
	w.settled()
	bad := []*kgo.Record{
		event("orders", "broken", `{"op":"upsert",`),
		event("customers", "A", `{"key":{"customerNumber":"A"},"attributes":{"emailAddress":"b@example.com"},"segments":{"tier":"gold"}}`),
		event("customers", "long", `{"key":{"customerNumber":"long"},"attributes":{"lastName":"`+strings.Repeat("é", 256)+`"},"segments":{"tier":"basic"}}`),
	}
	for i, r := range bad {
		r.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte{0, 1, byte(i)}}, {Key: "empty", Value: []byte{}}}
		r.Timestamp = time.UnixMilli(1700000000000 + int64(i))
	}
	w.produce(order("o1", "PAID", 1), customer("C1", "basic", 1))
	w.produce(bad...)
	w.produce(order("o2", "PAID", 2), customer("C2", "basic", 2))
	w.settled()
	for table, key := range map[string]string{"orders": "o1", "customers": "C1"} {
		for _, k := range []string{key, key[:1] + "2"} {
			if _, ok := w.service.Row(table, k); !ok {
				t.Errorf("%s %s: is missing, though only its neighbour is broken", table, k)
			}
		}
	}
	letters := map[string]*kgo.Record{}
	for _, l := range w.dead() {
		letters[string(l.Key)] = l
	}
	if len(letters) != len(bad) {
		t.Fatalf("dead letters: got %d, want %d", len(letters), len(bad))
	}
	want := map[string]map[string]string{
		"broken": {"__connect.errors.stage": "VALUE_CONVERTER", "__connect.errors.exception.class.name": "decode", "feedsink.lane": "immediate"},
		"A": {
			"__connect.errors.stage": "TASK_PUT", "__connect.errors.exception.class.name": "conflict", "feedsink.lane": "immediate",
			"feedsink.mapping": "customers", "feedsink.table": "customers", "feedsink.http.status": "409",
		},
		"long": {"__connect.errors.stage": "TRANSFORMATION", "__connect.errors.exception.class.name": "value", "feedsink.lane": "batch", "feedsink.mapping": "customers", "feedsink.table": "customers"},
	}
	for _, r := range bad {
		l := letters[string(r.Key)]
		if l == nil {
			t.Errorf("%s: is no dead letter", r.Key)
			continue
		}
		sameRecord(t, r, l)
		headers := map[string]string{}
		for _, h := range l.Headers {
			headers[h.Key] = string(h.Value)
		}
		want[string(r.Key)]["__connect.errors.topic"] = r.Topic
		want[string(r.Key)]["__connect.errors.partition"] = strconv.Itoa(int(r.Partition))
		want[string(r.Key)]["__connect.errors.offset"] = strconv.FormatInt(r.Offset, 10)
		want[string(r.Key)]["__connect.errors.connector.name"] = w.prefix + "sink"
		for name, value := range want[string(r.Key)] {
			if headers[name] != value {
				t.Errorf("%s: header %s: got %q, want %q", r.Key, name, headers[name], value)
			}
		}
		if headers["__connect.errors.exception.message"] == "" {
			t.Errorf("%s: the dead letter gives no message", r.Key)
		}
	}
}

// sameRecord compares byte for byte; a dead letter's own headers come last.
func sameRecord(t *testing.T, want, got *kgo.Record) {
	t.Helper()
	if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) {
		t.Errorf("%s: key or value differ", want.Key)
	}
	if !got.Timestamp.Equal(want.Timestamp) {
		t.Errorf("%s: timestamp: got %v, want %v", want.Key, got.Timestamp, want.Timestamp)
	}
	for i, h := range want.Headers {
		if got.Headers[i].Key != h.Key || !bytes.Equal(got.Headers[i].Value, h.Value) {
			t.Errorf("%s: header %d: got %v, want %v", want.Key, i, got.Headers[i], h)
		}
	}
}

func TestWithoutDeadLetterTopicThePartitionHalts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.start(head + mappings)
	w.produce(order("o1", "PAID", 1))
	w.until("the first order arrives", func() bool { _, ok := w.service.Row("orders", "o1"); return ok })
	broken := event("orders", "broken", `{`)
	w.produce(broken)
	var status string
	w.until("/status says why", func() bool {
		status = get(t, sink.AdminAddress(), "/status")
		return strings.Contains(status, fmt.Sprintf("%s[%d] offset %d", broken.Topic, broken.Partition, broken.Offset))
	})
	// The partition waits; the others go on.
	for i := range 40 {
		w.produce(order(fmt.Sprintf("n%d", i), "PAID", i))
	}
	w.until("other partitions go on", func() bool { return w.service.Len("orders") > 10 })
	if got := w.lag("immediate", "orders"); got < 1 {
		t.Errorf("lag: got %d, want at least the broken record", got)
	}
	if !strings.Contains(get(t, sink.AdminAddress(), "/metrics"), `feedsink_halted{mapping="orders"} 1`) {
		t.Error("/metrics does not show the halt")
	}
	if want := "Set dlq.topic and run feedsink reload, or fix the cause and restart feedsink: the record is tried again"; !strings.Contains(status, want) {
		t.Errorf("/status: got %s, want %q", status, want)
	}
	sink.stop()
	w.start(strings.Replace(head+mappings, "mappings:", deadLetters+"mappings:", 1))
	w.until("the record is tried again", func() bool { return w.lag("immediate", "orders") == 0 })
	if got := len(w.dead()); got != 1 {
		t.Errorf("dead letters after dlq.topic was set: got %d, want the broken record", got)
	}
}

func get(t *testing.T, address, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
