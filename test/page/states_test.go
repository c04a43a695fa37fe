//go:build page

package page

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
)

// shownStatus is a sink that is in a made-up state.
type shownStatus struct{ status observe.Status }

func (s shownStatus) Unready() []string { return s.status.Unready }
func (s shownStatus) Status() any       { return s.status }

// serve shows the page of a state, with a last hour and what members tell; "": that none is known.
func serve(t *testing.T, st observe.Status, members string) (page string) {
	t.Helper()
	if members == "" {
		members = `{"known":false,"members":[]}`
	}
	told := func(mux *http.ServeMux) {
		mux.HandleFunc("GET /members", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(members)) })
	}
	server, err := admin.Listen("127.0.0.1:0", admin.Access{}, shownStatus{st}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler),
		admin.History(func(asked []string) any { return lastHour(st.At, asked) }), told)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the page's server: %v", err)
		}
	})
	return "http://" + server.Address() + "/"
}

// lastHour is one of a morning's load.
func lastHour(to time.Time, mappings []string) observe.Hourly {
	series := func(scale float64) (s observe.Series) {
		for i := range 120 {
			wave := 1 + math.Sin(float64(i)/9)
			s.Freshness = append(s.Freshness, float32(math.Round(wave*21*scale)))
			s.Confirmed = append(s.Confirmed, float32(math.Round(wave*240*scale)))
			s.Calls = append(s.Calls, float32(math.Round(wave*50*scale)))
		}
		return s
	}
	batch := series(40)
	batch.Calls = nil
	of := map[string]observe.Series{"immediate": series(1), "batch": batch}
	h := observe.Hourly{Every: 30, To: to, Lanes: of, Mappings: map[string]map[string]observe.Series{}}
	for _, name := range mappings {
		h.Mappings[name] = of
	}
	return h
}

// at is the hour of all states.
var at = time.Date(2026, 11, 23, 15, 2, 11, 0, time.UTC)

// well is a sink with nothing wrong: customers take both lanes, orders calls alone.
func well() observe.Status {
	day := observe.DayStatus{
		Zone: "UTC", Begins: at.Truncate(24 * time.Hour), Ends: at.Truncate(24 * time.Hour).Add(24 * time.Hour), PerDay: 12, Reserve: 2, Owned: true, Left: 7,
		Used: []observe.UsedSlots{{At: at.Add(-9 * time.Hour), Count: 2}, {At: at.Add(-4 * time.Hour), Count: 3}},
	}
	inError := int64(12)
	day.Imports = []observe.EndedImport{{
		File: "customers-1", Mode: "CREATE_OR_UPDATE", Execution: "8841", Status: "FINISHED", Rows: 481_220, InError: &inError,
		Began: at.Add(-4 * time.Hour), Ended: at.Add(-4*time.Hour + 6*time.Minute),
	}}
	partitions := func(topic string, buffered int64) (all []kafka.PartitionStatus) {
		for i := range 3 {
			all = append(all, kafka.PartitionStatus{Topic: topic, Partition: int32(i), Committed: 180_422, Watermark: 180_431, Position: 180_440, Lag: 9, Pending: 3, Buffered: buffered})
		}
		return all
	}
	free := int64(14 << 30)
	return observe.Status{
		Version: "v1.2.3", Member: "feedsink-batch-7d9c6b5f4-x2x9q", Started: at.Add(-27 * time.Hour), At: at, Ready: true, Token: true,
		Waits: []observe.Wait{}, DeadLetters: []observe.RecentDeadLetter{},
		Lanes: []observe.LaneStatus{
			{Lane: "immediate", Group: "marketing-feedsink-immediate", Joined: true, Partitions: append(partitions("crm.customers", 0), partitions("shop.orders", 0)...), Calls: &observe.CallStatus{InFlight: 3, Limit: 5, Breaker: "closed"}},
			{Lane: "batch", Group: "marketing-feedsink-batch", Joined: true, Partitions: partitions("crm.customers", 1200)},
		},
		Spool: &observe.SpoolStatus{Bytes: 3 << 30, MaxBytes: 20 << 30, FreeBytes: &free},
		Mappings: []observe.MappingStatus{
			{
				Name: "customers", Table: "customers", Topics: []string{"crm.customers"}, Lanes: []string{"immediate", "batch"},
				Oldest: map[string]float64{"immediate": 2, "batch": 4211}, Objectives: []observe.ObjectiveStatus{
					{Route: "gold", Lane: "immediate", Within: 5, Objective: 0.999, Records: 40_000, Kept: new(0.9998)},
					{Route: "2", Lane: "batch", Within: 7200, Objective: 0.99},
				},
				Batch: &contract.MappingStatus{Rows: 214_008, Bytes: 96 << 20, Opened: at.Add(-70 * time.Minute), Until: at.Add(50 * time.Minute)},
				Roll:  &observe.RollStatus{Rows: 500_000, Bytes: 256 << 20, Seconds: 7200, At: []string{"06:30"}}, Due: at.Add(50 * time.Minute), Day: &day,
			},
			{Name: "orders", Table: "orders", Topics: []string{"shop.orders"}, Lanes: []string{"immediate"}, Oldest: map[string]float64{"immediate": 0}},
		},
	}
}

// pastItsAge has the customers' file be complete for half an hour.
func pastItsAge(s *observe.Status) *observe.MappingStatus {
	m := &s.Mappings[0]
	m.Batch.Opened, m.Batch.Until, m.Batch.Due, m.Due = at.Add(-150*time.Minute), at.Add(-30*time.Minute), true, at
	m.Oldest["batch"] = 9000
	return m
}

// importing has an import of the customers on its way.
func importing(m *observe.MappingStatus, step contract.Step) {
	m.Batch.Import = &contract.ImportStatus{Step: step, Since: at.Add(-17 * time.Minute)}
	m.Batch.Import.File, m.Batch.Import.Mode, m.Batch.Import.Rows, m.Batch.Import.ETL = "customers-2-0c9b1d4e77a2f3", "CREATE_OR_UPDATE", 481_220, "101"
}

const long = "crm.customers.eu-west-1.production.compacted.v2"

// states are those that a sink of a test does not get into, or with shorter names; the
// others are real ones, of TestRunningSinkSaysWhatItWaitsFor.
var states = []struct {
	name  string
	is    func(s *observe.Status)
	shows []string
}{
	{"topics-missing", func(s *observe.Status) {
		for _, topic := range []string{long, "shop.returns"} {
			s.Waits = append(s.Waits, observe.Wait{Cause: cluster.NoTopic, Lane: "immediate", Topic: topic, Why: "topic " + topic + " does not exist; create it, or correct topics of the mapping"})
		}
	}, []string{"topic " + long + " does not exist; create it", "topic shop.returns does not exist"}},
	{"login-refused", func(s *observe.Status) {
		s.Ready, s.Unready, s.Lanes[1].Joined, s.Lanes[1].Partitions = false, []string{"the batch lane has not joined its consumer group"}, false, []kafka.PartitionStatus{}
		s.Waits = []observe.Wait{
			{Cause: cluster.Refused, Lane: "immediate", Why: "the brokers do not say which topics there are: SASL_AUTHENTICATION_FAILED: SASL Authentication failed.; the login is refused; correct kafka.sasl"},
			{Cause: cluster.Refused, Lane: "batch", Why: "group marketing-feedsink-batch cannot be joined: GROUP_AUTHORIZATION_FAILED: Not authorized to access group: Group authorization failed.; grant the login READ on the group"},
		}
	}, []string{"the login is refused; correct kafka.sasl", "grant the login READ on the group", "waiting for a place in the group"}},
	{"key-fails", func(s *observe.Status) {
		s.Waits = []observe.Wait{{
			Cause: "retried", Lane: "immediate", Mapping: "customers", Table: "customers",
			Why: "1 key is tried again since 2026-11-23T09:14:00Z, 12 times so far: create or update profile customers: 500 Internal Server Error; other keys go on. retry.giveUpAfter ends what never succeeds",
		}}
	}, []string{"has calls that fail: 1 key is tried again since 2026-11-23T09:14:00Z", "▲ waiting"}},
	{"spool-full", func(s *observe.Status) {
		s.Spool.Bytes = s.Spool.MaxBytes
		s.Waits = []observe.Wait{{Cause: "spool_full", Lane: "batch", Why: "the spool takes 21474836480 bytes of spool.maxBytes 21474836480; partitions are read again once an import has made room"}}
		importing(pastItsAge(s), contract.Importing)
	}, []string{"The spool holds 20.0 GiB of 20.0 GiB; the batch lane pauses until an import has made room.", "waits for the import before it: importing", "feedsink imports show --mapping customers --server http"}},
	{"stopping", func(s *observe.Status) {
		s.Ready, s.Unready, s.Stopping = false, []string{"stopping until 2026-11-22T09:41:35Z"}, time.Date(2026, 11, 22, 9, 41, 35, 0, time.UTC)
	}, []string{"Stopping: the calls in flight end, at most until "}},
	{"slot", func(s *observe.Status) {
		m := pastItsAge(s)
		m.Day.Next = time.Date(2026, 11, 23, 17, 14, 0, 0, time.UTC)
		s.Waits = []observe.Wait{{Cause: "slot", Lane: "batch", Mapping: "customers", Until: m.Day.Next, Why: "its file waits for one of the table's imports of the day"}}
	}, []string{"waits for a slot: 17:14", "the next new import may go at 17:14"}},
	{"session", func(s *observe.Status) {
		s.Ready, s.Unready, s.Lanes[1].Joined, s.Lanes[1].Partitions = false, []string{"the batch lane has not joined its consumer group"}, false, []kafka.PartitionStatus{}
		s.Mappings[0].Day.Owned, s.Mappings[0].Day.Used, s.Mappings[0].Batch = false, []observe.UsedSlots{}, &contract.MappingStatus{}
		s.Waits = []observe.Wait{{Cause: cluster.NoPlace, Lane: "batch", Why: "group marketing-feedsink-batch has no place for this member yet: it waits for its other members; one that has died keeps its place until its session of 45s ends"}}
	}, []string{"one that has died keeps its place until its session of 45s ends", "Another member has this table, or none has it yet"}},
	{"member-dead", func(s *observe.Status) {
		for _, lane := range []string{"immediate", "batch"} {
			s.Waits = append(s.Waits, observe.Wait{
				Cause: "dead_member", Lane: lane, Member: "feedsink-batch-7d9c6b5f4-k81zz", Topic: long, Until: at.Add(38 * time.Second),
				Why: "member feedsink-batch-7d9c6b5f4-k81zz does not answer; if it has died, no member reads its partitions [0 2] of topic " + long + " until its session ends",
			})
		}
	}, []string{"The batch lane waits: member feedsink-batch-7d9c6b5f4-k81zz does not answer", "until its session ends, about 15:02:49. Nothing is lost"}},
	{"paused", func(s *observe.Status) {
		m := pastItsAge(s)
		m.Paused, m.Due = []observe.PauseStatus{{Lane: "batch", At: at.Add(-time.Hour), Until: at.Add(20 * time.Hour), Reason: "the table is being migrated"}}, time.Time{}
	}, []string{"waits until the mapping is resumed, or", "the table is being migrated"}},
	{"objective-missed", func(s *observe.Status) {
		m := &s.Mappings[0]
		m.Oldest["immediate"], m.Objectives[0].Kept = 41, new(0.99899999)
	}, []string{
		"41 s (immediate)", "gold within 5 s: kept 99.89 %", "route 2 within 2 h: none yet",
		"kept 99.89 % of 40,000 records, objective 99.9 %", "none yet, objective 99 %",
	}},
	{"dead-letters", func(s *observe.Status) {
		letter := func(topic, mapping, reason string, n int64) {
			d := observe.RecentDeadLetter{Topic: topic, Mapping: mapping, Reason: reason, Count: n}
			for i := range min(n, 5) {
				d.Latest = append(d.Latest, observe.DeadLetter{Partition: int32(i), Offset: 18_044_211_002 + i, At: at.Add(-time.Duration(i) * time.Minute)})
			}
			s.DeadLetters = append(s.DeadLetters, d)
		}
		letter("crm.customers", "customers", "import_row", 1204)
		letter("crm.customers", "customers", "conflict", 17)
		letter("shop.orders", "orders", "value", 3)
		letter("shop.orders", "", "decode", 1)
		letter("", "customers", "import_row", 2)
	}, []string{
		"the service answers 409", "crm.customers[0]@18044211002", "feedsink dlq list -c feedsink.yaml --by mapping,reason", "feedsink dlq list -c feedsink.yaml --mapping customers",
		"feedsink why -c feedsink.yaml --mapping customers --record 'crm.customers[0]@18044211002'", "feedsink imports files -c feedsink.yaml 8841",
	}},
}

func TestEveryStateSaysWhatItWaitsFor(t *testing.T) {
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			st := well()
			state.is(&st)
			b := open(t, serve(t, st, ""))
			b.shows("2 mappings")
			eval[chromedp.Void](b, everyDetail)
			for _, words := range state.shows {
				b.shows(words)
			}
			b.awaits("the plots", "document.querySelectorAll('.detail svg.plot').length > 4")
			nothingIsCutOff(b)
			b.judged("state-" + state.name)
			eval[chromedp.Void](b, "document.querySelectorAll('details').forEach(d => d.open = false)")
			b.pictured("state-" + state.name + "-closed")
		})
	}
}

func TestPageShowsTheTablesOfOtherMembers(t *testing.T) {
	st := well()
	theirs := well().Mappings[0]
	st.Mappings[0].Day.Owned, st.Mappings[0].Day.Used, st.Mappings[0].Batch = false, []observe.UsedSlots{}, &contract.MappingStatus{}
	st.Lanes[1].Partitions = []kafka.PartitionStatus{}
	importing(&theirs, contract.Importing)
	theirs.Day.Left = 5
	halted := theirs
	halted.Name, halted.Halted, halted.Release = "visits", []string{"import visits-4: the service says: column … is unknown"}, "feedsink imports release --mapping visits"
	raw := func(m observe.MappingStatus) json.RawMessage {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	own, err := json.Marshal(st.Started)
	if err != nil {
		t.Fatal(err)
	}
	told, err := json.Marshal(admin.MemberTables{Known: true, Members: []admin.MemberTable{
		{Address: "10.0.3.17:8080", Member: st.Member, Started: string(own[1 : len(own)-1]), Mappings: []json.RawMessage{raw(halted)}}, // itself: not shown twice
		{Address: "10.0.3.18:8080", Member: "feedsink-batch-7d9c6b5f4-k81zz", Started: "2026-11-22T10:00:00Z", Mappings: []json.RawMessage{raw(theirs), raw(halted)}},
		{Address: "10.0.3.19:8080", Error: "it has not answered for 2s", Mappings: []json.RawMessage{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, serve(t, st, string(told)))
	b.shows("its file and imports are at feedsink-batch-7d9c6b5f4-k81zz")
	b.shows("5 of 12 left")
	b.shows("feedsink imports release --mapping visits --server http://10.0.3.18:8080")
	if n := eval[int](b, "[...document.querySelectorAll('#problems li')].filter(l => l.innerText.includes('visits')).length"); n != 1 {
		t.Errorf("the halt is told %d times, want once: not of this member again", n)
	}
	eval[chromedp.Void](b, everyDetail)
	b.shows("The member at 10.0.3.19:8080 could not be asked")
	nothingIsCutOff(b)
	b.judged("members")
}

// nothingIsCutOff looks, on a phone, for text that is wider than its place.
func nothingIsCutOff(b *tab) {
	b.t.Helper()
	b.phone()
	const cut = `[...document.querySelectorAll("main *, header *")].filter(e => {
		if (e.closest(".unseen, svg") || !e.offsetParent) return false;
		return e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline" || e.getBoundingClientRect().right > innerWidth + 1;
	}).map(e => e.tagName + "." + e.className + ": " + e.innerText.slice(0, 60))`
	for _, found := range eval[[]string](b, cut) {
		b.t.Errorf("cut off on a phone: %s", found)
	}
	b.desktop()
}
