//go:build !image

package e2e_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/why"
)

// whyModel is what was written of each key, and what is to become of it.
type whyModel struct {
	w       *world
	records map[string]map[string][]modelled // by table and key
}

type modelled struct {
	*kgo.Record
	seq int
	bad bool // it is refused before any call
}

func (m *whyModel) produce(table string, seq, from, to int) {
	var all []*kgo.Record
	for i := from; i < to; i++ {
		key := fmt.Sprintf("K%05d", i)
		r, bad := order(key, "PAID", seq), i%50 == seq
		switch {
		case table == "orders" && bad:
			r = event("orders", key, fmt.Sprintf(`{"op":"upsort","businessKey":%q}`, key))
		case table == "customers" && bad:
			r = event("customers", key, fmt.Sprintf(`{"key":{"customerNumber":%q},"attributes":{"lastName":%q}}`, key, strings.Repeat("x", 300)))
		case table == "customers":
			r = customer(key, tierOf(key), seq)
		}
		all = append(all, r)
		m.records[table][key] = append(m.records[table][key], modelled{r, seq, bad})
	}
	m.w.produce(all...)
}

// ask asks why for all keys of a table and compares each answer with the model; it returns
// how many records have each verdict.
func (m *whyModel) ask(cfg *config.Config, table string) map[why.Verdict]int {
	w, t := m.w, m.w.t
	t.Helper()
	o := ops.WhyOptions{Name: table, Log: slog.New(slog.DiscardHandler), Progress: func(int64, int64) {}}
	for i := range len(m.records[table]) {
		o.Keys = append(o.Keys, fmt.Sprintf("K%05d", i))
	}
	before := map[string]kadm.OffsetResponses{}
	for _, lane := range []string{"immediate", "batch"} {
		before[lane], _ = w.admin.FetchOffsets(t.Context(), w.prefix+"sink-"+lane) // a group that is not there yet has committed nothing
	}
	report, err := ops.Why(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	rows, letters := w.service.Rows(table), w.dead()
	dead := map[string]bool{}
	for _, l := range letters {
		h := map[string]string{}
		for _, header := range l.Headers {
			h[header.Key] = string(header.Value)
		}
		dead[h["__connect.errors.topic"]+"["+h["__connect.errors.partition"]+"]@"+h["__connect.errors.offset"]] = true
	}
	verdicts, wrong := map[why.Verdict]int{}, 0
	fail := func(key string, r *why.Record, want string) {
		if wrong++; wrong <= 10 {
			t.Errorf("%s %s: %s is %s (%s), want %s; the row is %v", table, key, r, r.Verdict, r.Why, want, rows[key].Values)
		}
	}
	for i, k := range report.Keys {
		written := m.records[table][o.Keys[i]]
		if len(k.Records) != len(written) {
			t.Errorf("%s %s: got %d records, want %d", table, k.Key, len(k.Records), len(written))
			continue
		}
		for j := range k.Records {
			r, was := &k.Records[j], written[j]
			verdicts[r.Verdict]++
			row, is := rows[k.Key]
			seq, _ := strconv.Atoi(row.Text("seq"))
			committed, _ := before[r.Lane].Lookup(r.Topic, r.Partition)
			switch {
			case r.Offset != was.Offset || r.Topic != was.Topic:
				fail(k.Key, r, fmt.Sprintf("offset %d", was.Offset))
			case r.Verdict == why.DeadLetter && (!was.bad || !dead[r.String()]):
				fail(k.Key, r, "no dead letter")
			case r.Verdict == why.Confirmed && (was.bad || !is || seq < was.seq):
				fail(k.Key, r, "not confirmed")
			case r.Verdict == why.Superseded && (was.bad || seq <= was.seq):
				fail(k.Key, r, "not superseded")
			case r.Verdict == why.Waiting && r.Offset < committed.At:
				fail(k.Key, r, fmt.Sprintf("not waiting: offset %d was committed before", committed.At))
			}
		}
	}
	return verdicts
}

// 10,000 keys are asked about while the service is at its worst, a process is killed, and
// after all: no answer says what is not so.
func TestWhyAgreesWithTheModelAmidFaults(t *testing.T) {
	t.Parallel()
	const keys = 5000 // in each table
	w := newWorld(t, func(c *sandbox.Config) { c.TokenLifetime = 3 * time.Second })
	w.patience = 5 * time.Minute
	w.service.Chaos(7, chaos()...)
	yaml := head + deadLetters + mappings
	cfg := w.config(yaml)
	m := &whyModel{w, map[string]map[string][]modelled{"customers": {}, "orders": {}}}
	seen := map[why.Verdict]int{}
	ask := func() {
		t.Helper()
		for _, table := range []string{"customers", "orders"} {
			for v, n := range m.ask(cfg, table) {
				seen[v] += n
			}
		}
	}
	sink := w.run(yaml)
	m.produce("customers", 1, 0, keys)
	m.produce("orders", 1, 0, keys)
	w.until("some of it is in the tables", func() bool { return w.service.Len("customers") > 100 && w.service.Len("orders") > 100 })
	ask()
	m.produce("customers", 2, 0, keys/5)
	m.produce("orders", 2, 0, keys/5)
	if err := sink.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = sink.wait() // killed
	ask()
	w.run(yaml)
	w.until("the new process goes on", func() bool { return w.lag("immediate", "orders") < keys })
	ask()
	if seen[why.Unknown] > 0 || seen[why.Waiting] == 0 || seen[why.Confirmed] == 0 {
		t.Errorf("amid the faults: got %v, want some that wait, some confirmed, and none unknown: no routes have changed", seen)
	}
	w.settled()
	clear(seen)
	ask()
	if want := 2 * (keys + keys/5); seen[why.Confirmed]+seen[why.DeadLetter] != want || seen[why.DeadLetter] != 2*(keys+keys/5)/50 {
		t.Errorf("in the end: got %v, want %d confirmed or dead letters, of these %d dead letters", seen, want, want/50)
	}
}

// The command answers without a sink, shows no value unless asked, and exits as it says.
func TestWhyWorksWithoutASink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.run(head + deadLetters + mappings)
	address := sink.admin(w)
	w.until("the sink is ready", func() bool { return get(t, address, "/readyz") == "ok\n" })
	w.produce(order("o1", "the-status", 1))
	w.settled()
	sink.terminate(t)
	w.produce(order("o1", "the-status", 2))
	for _, c := range []struct {
		words, want string
		code        int
	}{
		{"why --mapping orders o1", "waits: group " + w.prefix + "sink-immediate has committed up to offset 1", 0},
		{"why --mapping orders --show-value o1", `value    status = "the-status"`, 0},
		{"why --mapping orders o2", "No record of the key.", 1},
		{"why --mapping orders --profile-id p", "table records have none", 1},
		{"why --mapping orders", "say which row", 2},
		{"why --mapping nonsense o1", "is not in the configuration", 2},
	} {
		out, code := w.execute(c.words)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: got exit code %d and\n%s\nwant %d and %q", c.words, code, out, c.code, c.want)
		}
		if strings.Contains(out, "the-status") && !strings.Contains(c.words, "--show-value") {
			t.Errorf("%s: shows a value:\n%s", c.words, out)
		}
	}
}
