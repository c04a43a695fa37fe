//go:build !image

package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/audit"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/test/planted"
)

// auditRuns names the environment variable that says how many runs under kills there are.
const auditRuns = "FEEDSINK_AUDIT_RUNS"

// mirrored has orders written by a file, too: each is of two parts. Visits go by calls, or by
// files where those do not get through.
const mirrored = `
  - name: mirror
    topics: ["${PREFIX}orders"]
    customTable: mirror
    key: businessKey
    routes: [{when: 'properties.status == "NEW"', lane: skip}, {lane: batch}]
    imports:
      upsert: {etl: "104", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 30, bytes: 1MiB, age: 300ms}
      slotsPerDay: 1000
  - name: visits
    topics: ["${PREFIX}visits"]
    customTable: visits
    key: businessKey
    routes: [{lane: auto}]
    imports:
      upsert: {etl: "105", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 30, bytes: 1MiB, age: 300ms}
      slotsPerDay: 1000
`

// audited is a world whose sinks are killed, and its load.
type audited struct {
	*world
	*rand.Rand
	yaml   string
	static bool // a process that begins has the partitions of one that was killed at once
	n      int  // records so far
}

func newAudited(t *testing.T, seed int) *audited {
	t.Helper()
	w := newWorld(t, func(c *sandbox.Config) {
		for id, table := range map[string]string{"104": "mirror", "105": "visits"} {
			c.Tables = append(slices.Clip(c.Tables), sandbox.Table{Name: table, Custom: true, Fields: []sandbox.Field{{Name: "seq", Type: sandbox.Number}, {Name: "status"}}})
			c.ETLs = append(c.ETLs, sandbox.ETL{ID: id, Loads: []sandbox.Load{{Table: table, Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}})
		}
	})
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Table: "visits", Probability: 0.4}, Answer: sandbox.Status(http.StatusTooManyRequests)})
	w.createTopics(1, "receipts")
	w.createTopics(partitions, "visits")
	key := shared(t, filepath.Join(w.dir, "receipts-key"))
	if err := os.WriteFile(key, []byte("the-receipts-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	yaml := head + deadLetters + "\nreceipts: {topic: ${PREFIX}receipts, keyFile: " + strconv.Quote(key) + "}\n" +
		strings.Replace(mappings, "rows: 500, bytes: 1MiB, age: 500ms", "rows: 20, bytes: 1MiB, age: 300ms", 1) + mirrored
	yaml = strings.Replace(yaml, "sessionTimeout: 10s", "sessionTimeout: 6s", 1)
	static := seed%4 > 0
	if static {
		yaml = strings.Replace(yaml, "sessionTimeout: 6s", "sessionTimeout: 6s, instanceId: only", 1)
	}
	return &audited{world: w, Rand: rand.New(rand.NewPCG(uint64(seed), 7)), yaml: yaml, static: static}
}

// more produces some records: customers by calls and files, few of which the import refuses;
// orders in two parts, or one, some of which cannot be read; visits; some in transactions.
func (a *audited) more(count int) {
	a.t.Helper()
	var records []*kgo.Record
	for range count {
		a.n++
		tier := []string{"gold", "basic", "basic", "basic"}[a.IntN(4)]
		if a.IntN(40) == 0 {
			tier = "platinum"
		}
		status := []string{"PAID", "SENT", "NEW"}[a.IntN(3)]
		records = append(records, customer(fmt.Sprintf("C%d", a.IntN(23)), tier, a.n), order(fmt.Sprintf("o%d", a.IntN(9)), status, a.n))
		visit := order(fmt.Sprintf("v%d", a.IntN(60)), status, a.n)
		visit.Topic = "visits"
		records = append(records, visit)
		if a.IntN(30) == 0 {
			records = append(records, event("orders", "o1", `{"op":"nonsense"}`), event("orders", "o2", `{`))
		}
	}
	a.produce(records...)
	a.transaction(a.IntN(2) == 0)
}

// transaction produces a record and the marks that end its transaction.
func (a *audited) transaction(commits kgo.TransactionEndTry) {
	a.t.Helper()
	client, err := kgo.NewClient(a.reach(kgo.TransactionalID(fmt.Sprintf("%s%d", a.prefix, a.n)), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))...)
	if err != nil {
		a.t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		a.t.Fatal(err)
	}
	a.n++
	r := order(fmt.Sprintf("o%d", a.IntN(9)), "PAID", a.n)
	r.Topic = a.topic(r.Topic)
	if err := client.ProduceSync(a.t.Context(), r).FirstErr(); err != nil {
		a.t.Fatal(err)
	}
	if err := client.EndTransaction(a.t.Context(), commits); err != nil {
		a.t.Fatal(err)
	}
}

// killed kills a sink at some moment of its work.
func (a *audited) killed(s *process) {
	a.t.Helper()
	if !a.static {
		a.joined(s)
	}
	switch lag := a.lag("immediate", "orders"); a.IntN(5) {
	case 0:
		a.until("an import's execution is on record", func() bool { return strings.Contains(s.out.String(), "execution is on record") })
	case 1:
		a.until("some of the calls are made", func() bool { return a.lag("immediate", "orders") < lag || lag == 0 })
	case 2:
		lag = a.lag("batch", "customers")
		a.until("an import is confirmed", func() bool { return a.lag("batch", "customers") < lag || lag == 0 })
	case 3:
		s.admin(a.world)
	case 4:
		before := len(a.service.Calls())
		a.until("some calls were made", func() bool { return len(a.service.Calls()) > before+a.IntN(20) || a.lag("immediate", "orders") == 0 })
	}
	if err := s.signal(syscall.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
	_ = s.wait() // it was killed
}

// lives runs sinks and kills all but the last.
func (a *audited) lives() {
	a.t.Helper()
	a.more(40)
	for range 2 + a.IntN(3) {
		s := a.run(a.yaml)
		a.more(10 + a.IntN(20))
		if out, code := a.execute("audit"); code != 0 {
			a.t.Errorf("audit beside the sink: got exit code %d, want no gap:\n%s", code, out)
		}
		a.more(10 + a.IntN(20))
		a.killed(s)
	}
	last := a.run(a.yaml)
	a.more(20)
	a.settled()
	a.until("all files are confirmed", func() bool { return a.lag("batch", "orders")+a.lag("batch", "visits") == 0 })
	last.terminate(a.t)
}

// evidence is what an audit reads, in memory.
func (a *audited) evidence() *planted.World {
	a.t.Helper()
	e, closing, err := audit.Gather(a.t.Context(), audit.Source{
		Connection: a.own, Group: a.prefix + "sink", Topics: map[string][]audit.Lane{a.topic("customers"): nil, a.topic("orders"): nil, a.topic("visits"): nil}, Receipts: a.topic("receipts"), DeadLetters: a.topic("dlq"),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	defer closing()
	w, err := planted.Load(a.t.Context(), e, a.prefix+"sink", map[string]audit.Table{
		"customers": {Name: "profile/customers", Home: a.topic("customers"), PerDay: 1000, Zone: time.UTC},
		"mirror":    {Name: "custom/mirror", Home: a.topic("orders"), PerDay: 1000, Zone: time.UTC},
		"visits":    {Name: "custom/visits", Home: a.topic("visits"), PerDay: 1000, Zone: time.UTC},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return w
}

// TestAuditFindsWhatIsPlantedAndNothingElse kills sinks at work, and audits what they leave: as
// it is, and with each plant in it. `make test-audit` has it do so many times.
func TestAuditFindsWhatIsPlantedAndNothingElse(t *testing.T) {
	t.Parallel()
	runs := 1
	if text := os.Getenv(auditRuns); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for run := 1; run <= runs; run++ {
		t.Run(strconv.Itoa(run), func(t *testing.T) {
			t.Parallel()
			a := newAudited(t, run)
			a.lives()
			a.clean()
			a.planted()
		})
	}
}

// clean checks that the command finds nothing.
func (a *audited) clean() {
	a.t.Helper()
	for _, from := range []string{"", " --from begin"} {
		out, code := a.execute("audit -o json" + from)
		var r audit.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || len(r.Gaps) > 0 {
			a.t.Fatalf("audit%s: got exit code %d, %v, want no gap:\n%s", from, code, err, out)
		}
		var ended, before, waiting int64
		for _, p := range r.Partitions {
			ended, before, waiting = ended+p.Ended, before+p.Before, waiting+p.Waiting
		}
		if ended < int64(a.n) || waiting > 0 || from != "" && before > 0 || r.DeadLetters == 0 || r.Imports == 0 || r.Keys == 0 {
			a.t.Errorf("audit%s: got %d records that ended, %d before, %d waiting; %d dead letters, %d imports, %d keys", from, ended, before, waiting, r.DeadLetters, r.Imports, r.Keys)
		}
		a.t.Logf("audit%s: %d records ended exactly once, %d of before; %d receipts, of which %d repeated; %d dead letters, %d imports, %d keys", from, ended, before, r.Receipts, r.Repeated, r.DeadLetters, r.Imports, r.Keys)
	}
}

// planted checks that each plant is found in what the sinks left.
func (a *audited) planted() {
	a.t.Helper()
	found := 0
	w := a.evidence()
	for _, plant := range planted.Plants() {
		c := w.Clone()
		at, ok := plant.Alter(c)
		if !ok {
			continue
		}
		r, err := c.Audit(a.t.Context(), audit.Options{All: true})
		if err != nil {
			a.t.Fatal(err)
		}
		if !r.Has(plant.Kind, at.Topic, at.Partition, at.Offset) {
			a.t.Errorf("%s: got %+v, want %s at %v", plant.Name, r.Gaps, plant.Kind, at)
		}
		found++
	}
	if found < 20 {
		a.t.Errorf("got %d kinds of plants that this run has a place for, want 20 at least", found)
	}
	a.t.Logf("planted and found: %d kinds", found)
}
