package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fill produces a customer every 100 seconds, four of them over and over, and some
// records of other kinds.
func (d *host) fill(brokers string) {
	d.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		d.t.Fatal(err)
	}
	defer client.Close()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	produce := func(key, value string) {
		r := &kgo.Record{Topic: "crm.customers", Key: []byte(key), Timestamp: at}
		if value != "" {
			r.Value = []byte(value)
		}
		if err := client.ProduceSync(d.t.Context(), r).FirstErr(); err != nil {
			d.t.Fatal(err)
		}
		at = at.Add(100 * time.Second)
	}
	for i := range 33 {
		produce("", fmt.Sprintf(`{"op":"upsert","key":{"customerNumber":"C%d"},"attributes":{"emailAddress":"c%d@example.com"}}`, i%4, i))
	}
	produce("C1", "")
	produce("", `{"op":"upsert","key":{"customerNumber":"C9"},"segments":{"tier":"gold"}}`)
	produce("", `{"op":"upsert","key":{}}`)
	produce("", "nonsense")
}

func TestPlanTellsWhatWouldGoOut(t *testing.T) {
	d := newHost(t)
	kafka := d.newBroker()
	brokers, err := kafka.ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.fill(fmt.Sprintf("%s:%d", brokers[0].Host, brokers[0].Port))
	d.change("routes: [{lane: batch}]", "routes: [{when: 'segments.tier == \"gold\"', lane: immediate}, {lane: batch}]")
	d.change("  upsert: {mode", "  roll: {age: 30m}\n      upsert: {mode")
	const want = `topic crm.customers: 37 of 37 records read, 2026-11-21T10:00:00Z to 2026-11-21T11:00:00Z

mapping customers: 36 records for table customers
  calls          1 for 1 write (1 upsert)
    a day        about 25, at most 1 in a minute
    POST /profiles/v5/entities/acme/profile-tables/customers/profiles
      {"attributes":{"customerNumber":"C9"},"segments":{"tier":"gold"}}
  file           4 rows for 34 writes (1 delete, 3 upsert), 131 bytes uncompressed
    a day        up to 192 rows in 48 files by roll.age: 96 imports
    slots        10 a day: files grow and go out about every 4h48m0s
    delete:
      customerNumber
      C1
    upsert:
      customerNumber,emailAddress,subscriptions#newsletter
      C0,c32@example.com,
      C2,c30@example.com,
  dead letters   1
  lanes          if all of these records took one:
    batch        no calls; 2 imports for 10 rows, at most 2 slots a day
                 99 % there within 1 h 22 min, the oldest within 1 h 22 min; 8.9 hours of stale rows
    auto         34 calls, at most 34 a day; 1 import for 1 row, at most 1 slot a day
                 99 % there within 32 min, the oldest within 32 min; 0.5 hours of stale rows
    immediate    cannot: the op delete, of 1 of 35 writes, has no call without the profile's id
    recommended  auto: calls carry all but 1 row of 2026-11-21, by 1 import; batch would leave rows up to 1 h 22 min old

dead letters:
       1  decode: json: offset 1: not valid JSON (crm.customers[0]@36)
       1  customers, value: attributes.customerNumber: the key is missing (crm.customers[0]@35)
`
	code, out, failed := d.run("plan --show")
	if code != 0 || out != want {
		t.Errorf("got code %d, %q\n%s\nwant\n%s", code, failed, out, want)
	}
	if groups, err := kafka.ListGroups(t.Context()); err != nil || len(groups) != 0 {
		t.Errorf("groups: got %v, %v, want none", groups.Groups(), err)
	}
	if calls := len(d.service.Calls()); calls != 0 {
		t.Errorf("the service: got %d calls, want none", calls)
	}
	if _, out, _ = d.run("plan --limit 10"); !strings.HasPrefix(out, "topic crm.customers: 10 of 37 records read") || strings.Contains(out, "C9") {
		t.Errorf("--limit 10: got %s, want the last ten, and no values", out)
	}
	d.change("segments.tier ==", "segments.tierr ==")
	if _, out, _ = d.run("plan"); !strings.Contains(out, "  not found      none of 35 records has \"segments.tierr\" (routes[0].when); did you mean \"tier\"?\n") {
		t.Errorf("a misspelt name: got %s, want it told", out)
	}
	d.change("segments.tierr ==", "segments.tier ==")
	if _, out, _ = d.run("plan --since 1s"); !strings.HasPrefix(out, "topic crm.customers: 0 of 37 records read\n") {
		t.Errorf("--since 1s: got %s, want none", out)
	}
	if code, out, failed := d.run("plan --since 9999d"); code != 0 || !strings.HasPrefix(out, "topic crm.customers: 37 of 37 records read") {
		t.Errorf("--since 9999d: got code %d, %s%s, want all", code, out, failed)
	}
	d.change("      upsert: {mode", "      patch: {etl: \"9\", mode: UPDATE_ONLY}\n      upsert: {mode")
	if _, out, _ = d.run("plan --limit 10"); !strings.HasPrefix(out, "before a sink starts with this configuration:\n  feedsink.yaml:13:7: mappings[0].imports.patch: "+
		"a patch's row leaves empty what it does not name, and nothing says that the ETL 9 ignores empty values") || !strings.Contains(out, "ignoresEmpty: true}`") {
		t.Errorf("a patch's ETL of which nothing is known: got %s, want the line and what to write", out)
	}
	d.change("{when: 'segments.tier == \"gold\"', lane: immediate}, {lane: batch}]", "{when: 'op == \"delete\"', lane: skip}, {lane: batch}]\n    when: segments.tier == nil")
	if _, out, _ = d.run("plan"); !strings.Contains(out, "2026-11-21T11:00:00Z\n  skipped        1, which no mapping takes\n") ||
		!strings.Contains(out, "mapping customers: 35 records for") || !strings.Contains(out, "\n  skipped        1\n") {
		t.Errorf("a route that skips and a condition: got %s, want the tombstone skipped, and the gold one not taken", out)
	}
	if code, _, failed = d.run("plan --limit 0"); code != 2 {
		t.Errorf("--limit 0: got code %d, %s, want 2", code, failed)
	}
}

// Of a busy partition the records of ten minutes are read, of a quiet one those of ten days.
func TestPlanTellsOfADayByEachPartitionsOwnTime(t *testing.T) {
	d := newHost(t)
	kafka := d.newBroker()
	if _, err := kafka.UpdatePartitions(t.Context(), 2, "crm.customers"); err != nil {
		t.Fatal(err)
	}
	brokers, err := kafka.ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("%s:%d", brokers[0].Host, brokers[0].Port)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	end := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for partition, every := range []time.Duration{time.Minute, 24 * time.Hour} {
		for i := range 30 {
			if err := client.ProduceSync(t.Context(), &kgo.Record{
				Topic: "crm.customers", Partition: int32(partition), Timestamp: end.Add(-time.Duration(29-i) * every),
				Value: fmt.Appendf(nil, `{"op":"upsert","key":{"customerNumber":"C%d-%d"}}`, partition, i),
			}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for flags, want := range map[string]string{
		"--limit 20":                   "a day        up to 1602 rows in ", // 10 in 9 minutes, and 10 in 9 days
		"--limit 60":                   "a day        up to 3 rows in ",    // 60 in 29 days: there are no older ones
		"--since 2026-11-21T09:55:00Z": "a day        up to 2016 rows in ", // 7 in 5 minutes
	} {
		if code, out, failed := d.run("plan " + flags); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: got code %d, %s%s, want %q", flags, code, out, failed, want)
		}
	}
}
