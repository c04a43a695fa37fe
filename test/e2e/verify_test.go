//go:build !image

package e2e_test

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/verify"
)

func verifyOf(mapping string) ops.VerifyOptions {
	return ops.VerifyOptions{
		Name: mapping, Rate: config.Rate{Calls: 10_000, Per: time.Second}, GiveUp: time.Minute,
		Log: slog.New(slog.DiscardHandler), Rand: rand.New(rand.NewPCG(1, 2)),
	}
}

// verified is a verification that must come to its end.
func (w *world) verified(cfg *config.Config, o ops.VerifyOptions) verify.Report {
	w.t.Helper()
	report, err := ops.Verify(w.t.Context(), cfg, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// drift changes table records beside the sink.
type drift struct {
	w      *world
	client *service.Client
}

func (w *world) drift(cfg *config.Config) drift {
	client, err := build.NewService(cfg.Service)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return drift{w, client}
}

type body string

func (b body) AppendJSON(to []byte) []byte { return append(to, b...) }

func (d drift) status(key, to string) {
	d.w.t.Helper()
	if _, err := d.client.UpdateRecord(d.w.t.Context(), "orders", key, body(fmt.Sprintf(`{"properties":[{"name":"status","value":%q}]}`, to))); err != nil {
		d.w.t.Fatal(err)
	}
}

func (d drift) lost(key string) {
	d.w.t.Helper()
	if err := d.client.DeleteRecord(d.w.t.Context(), "orders", key); err != nil {
		d.w.t.Fatal(err)
	}
}

// back makes a row where there is none.
func (d drift) back(key string) {
	d.w.t.Helper()
	if _, err := d.client.UpsertRecord(d.w.t.Context(), "orders", body(fmt.Sprintf(`{"businessKey":%q,"properties":[]}`, key)), false); err != nil {
		d.w.t.Fatal(err)
	}
}

// Of 4,000 keys 0.1 %, 1 % and 10 % have been changed by somebody else. A sample finds as many
// as its size and their share say, within four standard deviations; all keys show all of them.
func TestVerifyFindsPlantedDriftAtThePredictedRate(t *testing.T) {
	t.Parallel()
	const keys, sample = 4000, 1000
	w := newWorld(t, nil)
	cfg := w.config(head + deadLetters + mappings)
	w.begin(cfg)
	records := make([]*kgo.Record, keys)
	for i := range records {
		records[i] = order(fmt.Sprintf("O%d", i), "NEW", i)
	}
	w.produce(records...)
	w.settled()
	if got := w.verified(cfg, verifyOf("orders")); !got.All || got.Compared != keys || !got.Equal() {
		t.Fatalf("before any drift: got %+v, want all %d keys equal", got, keys)
	}
	planted, d := 0, w.drift(cfg)
	for _, share := range []float64{0.001, 0.01, 0.1} {
		for ; float64(planted) < share*keys; planted++ {
			d.status(fmt.Sprintf("O%d", planted), "drifted")
		}
		all := w.verified(cfg, verifyOf("orders"))
		if all.Different != int64(planted) || all.Fields["status"] != int64(planted) || len(all.Fields) != 1 {
			t.Errorf("%g planted: got %d different, fields %v; want %d in status", share, all.Different, all.Fields, planted)
		}
		found, covered := 0.0, 0
		const samples = 5
		for seed := range uint64(samples) {
			o := verifyOf("orders")
			o.Sample, o.Rand = sample, rand.New(rand.NewPCG(seed, 3))
			got := w.verified(cfg, o)
			if got.Compared != sample || got.All {
				t.Fatalf("a sample: got %+v, want %d compared", got, sample)
			}
			found += float64(got.Different)
			if got.AtMost >= share {
				covered++
			}
		}
		expected := share * sample * samples
		if off := math.Abs(found - expected); off > 4*math.Sqrt(expected) {
			t.Errorf("%g planted: got %.0f in %d samples, want about %.0f", share, found, samples, expected)
		}
		if covered < samples-2 {
			t.Errorf("%g planted: the bound held in %d of %d samples", share, covered, samples)
		}
	}
}

// What differs is named with the record that should have won, by field, and nothing else: not
// what is a dead letter, a delete, a column that the records do not name. A repair mends it.
func TestVerifyNamesWhatDiffersAndRepairsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	cfg := w.config(head + deadLetters + mappings)
	w.begin(cfg)
	for i := range 8 {
		w.produce(order(fmt.Sprintf("O%d", i), "NEW", i))
	}
	w.produce(change("delete", "O0", ""), change("patch", "O1", `"status":"PAID"`), change("upsert", "O2", `"seq":"many"`),
		change("delete", "O3", ""), change("merge", "O4", `"status":null`), change("create", "C", `"seq":1.50`))
	w.settled()
	if got := w.verified(cfg, verifyOf("orders")); !got.Equal() || got.Compared != 9 || got.DeadLetters != 1 {
		t.Fatalf("nothing differs: got %+v, want 9 equal keys and a dead letter", got)
	}

	d := w.drift(cfg)
	d.status("O1", "a-secret-value")
	d.lost("O5")
	d.back("O3")
	w.write(head + deadLetters + mappings)
	out, code := w.execute("verify --mapping orders --rate 1000/s")
	for _, want := range []string{"6 of 9: 3 differ", "missing           1", "not deleted       1", "differ in status  1", ": missing", ": not deleted", ": differs in status", "the key of " + w.topic("orders") + "["} {
		if !strings.Contains(out, want) {
			t.Errorf("report: want %q in\n%s", want, out)
		}
	}
	for _, secret := range []string{"a-secret-value", "O5", "PAID"} {
		if strings.Contains(out, secret) {
			t.Errorf("report: shows %q, which was not asked for:\n%s", secret, out)
		}
	}
	if code != 1 {
		t.Errorf("exit code: got %d, want 1", code)
	}
	if out, _ = w.execute("verify --mapping orders --rate 1000/s --show-value"); !strings.Contains(out, `status: should be "PAID", is "a-secret-value"`) {
		t.Errorf("with values: got\n%s", out)
	}

	before := w.service.CallCount(4) + w.service.CallCount(5) + w.service.CallCount(7)
	o := verifyOf("orders")
	o.Repair = true
	repaired := w.verified(cfg, o)
	if repaired.Repair == nil || repaired.Repair.Sent != 3 || !repaired.Repaired() {
		t.Errorf("repair: got %+v, want 3 keys sent again", repaired.Repair)
	}
	if got := w.service.CallCount(4) + w.service.CallCount(5) + w.service.CallCount(7) - before; got != 3 {
		t.Errorf("repair: made %d calls, want one for each key that differed", got)
	}
	if got := w.verified(cfg, verifyOf("orders")); !got.Equal() || got.Compared != 9 {
		t.Errorf("afterwards: got %+v, want all equal", got)
	}
}

// A table that the sink writes by files alone is repaired by calls, too.
func TestVerifyRepairsATableOfFilesByCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOrdersETL)
	cfg := w.config(head + deadLetters + rowsAlone)
	w.begin(cfg)
	w.produce(order("O1", "NEW", 1), order("O2", "NEW", 2))
	w.until("both rows are confirmed", func() bool { return w.lag("batch", "orders") == 0 })
	d := w.drift(cfg)
	d.status("O1", "SPOILT")
	o := verifyOf("orders")
	o.Repair = true
	if got := w.verified(cfg, o); got.Repair == nil || got.Repair.Sent != 1 || got.Repair.By != replay.ByCalls || !got.Repaired() {
		t.Errorf("repair: got %+v of %+v, want the one key sent by a call", got.Repair, got)
	}
	if got := w.verified(cfg, verifyOf("orders")); !got.Equal() || got.Compared != 2 {
		t.Errorf("afterwards: got %+v, want both equal", got)
	}
}

// Both lanes write the orders while they are compared, again and again: keys whose records are on
// their way, in an open file or under correction are left out, and none is a difference. The load
// goes on as fast as it is confirmed, so that there are always keys to compare.
func TestVerifyBesideBothLanesUnderLoadFindsNoDifference(t *testing.T) {
	t.Parallel()
	const keys, hot, most = 200, 20, 60
	w := newWorld(t, withBothETLs)
	cfg := w.config(head + deadLetters + bothLanes)
	w.begin(cfg)
	bursts, ended := make(chan struct{}), make(chan struct{})
	stop := sync.OnceFunc(func() { close(bursts); <-ended })
	t.Cleanup(stop)
	go func() {
		defer close(ended)
		rnd, every := rand.New(rand.NewPCG(4, 5)), time.NewTicker(5*time.Millisecond)
		defer every.Stop()
		seq := 0
		for range bursts {
			for range most {
				<-every.C
				seq++
				key := fmt.Sprintf("K%d", rnd.IntN([]int{keys, hot}[rnd.IntN(2)]))
				var r *kgo.Record
				switch rnd.IntN(8) {
				case 0:
					r = change("delete", key, "")
				case 1, 2:
					r = change("patch", key, fmt.Sprintf(`"status":"S%d"`, seq))
				case 3:
					r = change("upsert", key, fmt.Sprintf(`"seq":%d`, seq))
				default:
					r = change("upsert", key, fmt.Sprintf(`"seq":%d.50,"status":"S%d"`, seq, seq))
				}
				if rnd.IntN(2) == 0 {
					now(r)
				}
				w.produce(r)
			}
		}
	}()
	compared, left := int64(0), int64(0)
	for compared < 10*keys || left == 0 {
		w.until("the load is nearly confirmed", func() bool { return w.lag("immediate", "orders")+w.lag("batch", "orders") < most })
		bursts <- struct{}{}
		var report verify.Report
		w.until("something is confirmed", func() (ok bool) {
			var err error
			report, err = ops.Verify(t.Context(), cfg, verifyOf("orders"))
			return err == nil
		})
		if !report.Equal() {
			t.Fatalf("got differences beside load: %+v", report)
		}
		compared, left = compared+report.Compared, left+report.Newer
	}
	stop()
	w.bothSettled()
	if got := w.verified(cfg, verifyOf("orders")); !got.Equal() || got.Newer != 0 || got.Compared < keys/2 {
		t.Errorf("once all is confirmed: got %+v, want all keys compared, and equal", got)
	}
}

// Of profiles it says what cannot be known, and what is.
func TestVerifySaysThatProfilesCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.begin(w.config(head + deadLetters + mappings))
	w.produce(customer("C1", "gold", 1), event("customers", "C2", `{"op":"upsort","key":{"customerNumber":"C2"}}`), customer("C3", "basic", 1))
	w.settled()
	w.write(head + deadLetters + mappings)
	out, code := w.execute("verify --mapping customers --server http://" + sink.AdminAddress())
	for _, want := range []string{"no operation that reads a profile", "1 (value 1), open", "0 by the batch lane", "0 by the immediate lane", "FINISHED, 1 row"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if code != 1 {
		t.Errorf("exit code: got %d, want 1 for the open dead letter", code)
	}

	w.write(strings.Replace(head+deadLetters+mappings, "- name: customers", "- name: clients", 1))
	verify := "verify --mapping clients --server http://" + sink.AdminAddress()
	for command, want := range map[string]string{
		verify:                     "1 (value 1), open",
		"why --mapping clients C2": "is a dead letter, value",
		"dlq replay --dry-run":     "replay with a configuration that has its former name",
	} {
		if out, _ := w.execute(command); !strings.Contains(out, want) {
			t.Errorf("%s after the mapping was renamed: want %q in\n%s", command, want, out)
		}
	}
}
