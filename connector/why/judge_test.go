package why_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/pause"
	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// compiled is a mapping of both lanes.
func compiled(t *testing.T) *router.Router {
	t.Helper()
	r, problems := router.Compile([]router.Mapping{{
		Name: "customers", Topics: []string{"customers"}, ProfileTable: "customers", Key: "number",
		Routes: []router.Route{{When: `segments.tier == "test"`, Lane: "skip"}, {When: `segments.tier == "gold"`, Lane: "immediate"}, {Lane: "batch"}},
		Imports: router.Imports{
			Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, Columns: []router.Column{{Name: "number"}, {Name: "name"}},
			CSV: router.CSV{Separator: ",", Enclosing: `"`, Encoding: "UTF-8", Compression: "GZIP"}, Roll: router.Roll{Rows: 10, Bytes: 1 << 20, Age: time.Hour},
			SlotsPerDay: 12, Timezone: "UTC",
		},
	}, {
		Name: "orders", Topics: []string{"orders"}, CustomTable: "orders", Key: "number", Routes: []router.Route{{Lane: "immediate"}},
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return r
}

// at is a record of the key that means an upsert in a lane.
func at(offset int64, lane schemas.Lane) why.Found {
	f := why.Found{
		Record: &kafka.Record{Topic: "customers", Offset: offset, Timestamp: noon.Add(time.Duration(offset) * time.Second), Value: []byte{byte(offset)}},
		Key:    "C1", Lane: lane, Route: 1,
	}
	if lane != schemas.Skip {
		f.Write = schemas.Write{Op: schemas.Upsert, Table: schemas.Table{Name: "customers"}, Key: "C1"}
	}
	return f
}

var partition = cluster.TopicPartition{Topic: "customers"}

// world is what was read: both lanes have committed up to 10 and follow the routes from 0.
func world(t *testing.T) *why.State {
	t.Helper()
	r := compiled(t)
	m := r.Mappings()[0]
	ledger := func() why.Ledger {
		return why.Ledger{Committed: true, Offset: 10, Ledger: ack.Ledger{Routes: ack.Routes{Changed: 2, Shared: true, Epochs: []ack.Epoch{{Fingerprint: m.Routes}}}}}
	}
	return &why.State{
		Router: r, Mapping: m, Groups: map[schemas.Lane]string{schemas.Immediate: "sink-immediate", schemas.Batch: "sink-batch"},
		Ledgers: map[schemas.Lane]map[cluster.TopicPartition]why.Ledger{
			schemas.Immediate: {partition: ledger()}, schemas.Batch: {partition: ledger()},
		},
		Pauses: &pause.Known{}, Tables: []string{m.Table.Qualified()},
	}
}

// change changes a lane's ledger.
func change(s *why.State, lane schemas.Lane, how func(l *why.Ledger)) {
	l := s.Ledgers[lane][partition]
	how(&l)
	s.Ledgers[lane][partition] = l
}

func deadLetter(f why.Found, state, mapping string) why.Letter {
	return why.Letter{
		Letter: "0:7", State: state, Ended: state == "done" || state == "discarded", Reason: "rejected", Message: "400 Bad Request",
		Received: &deadletter.Received{Record: f.Record, Reason: deadletter.Reason{Mapping: mapping}},
	}
}

func TestVerdictIsWhatTheLedgersAndLettersSay(t *testing.T) {
	refused := errors.New("attributes.name: at most 255 characters")
	letter := func(f why.Found, letters ...why.Letter) func(*why.State) {
		return func(s *why.State) {
			s.Letters = map[cluster.RecordPlace][]why.Letter{{TopicPartition: partition, Offset: f.Offset}: letters}
		}
	}
	former := func(table string) why.Letter { // of a mapping that the configuration does not have
		l := deadLetter(at(5, schemas.Immediate), "open", "former")
		l.Received.Table = table
		return l
	}
	another := at(5, schemas.Immediate)
	another.Record = &kafka.Record{Topic: "customers", Offset: 5, Value: []byte("of an earlier topic")}
	bad := func(offset int64) why.Found {
		f := at(offset, schemas.Immediate)
		f.Err = refused
		return f
	}
	epoch := func(from int64) func(l *why.Ledger) { return func(l *why.Ledger) { l.Routes.Epochs[0].From = from } }
	for name, c := range map[string]struct {
		record why.Found
		change func(s *why.State)
		want   why.Verdict
		why    string
	}{
		"below the commit": {at(5, schemas.Immediate), nil, why.Confirmed, "below the commit of group sink-immediate, offset 10"},
		"beyond it, in done": {at(15, schemas.Batch), func(s *why.State) {
			change(s, schemas.Batch, func(l *why.Ledger) { l.Done = ack.Ranges{{From: 14, To: 16}} })
		}, why.Confirmed, "beyond its commit at offset 10"},
		"the other lane's commit": {at(15, schemas.Immediate), func(s *why.State) { change(s, schemas.Batch, func(l *why.Ledger) { l.Offset = 20 }) }, why.Waiting, "sink-immediate has committed up to offset 10"},
		"not begun":               {at(5, schemas.Batch), func(s *why.State) { delete(s.Ledgers[schemas.Batch], partition) }, why.Waiting, "has committed nothing"},
		"not begun, and the other took it": {at(5, schemas.Batch), func(s *why.State) {
			delete(s.Ledgers[schemas.Batch], partition)
			change(s, schemas.Immediate, epoch(8))
		}, why.Unknown, "group sink-immediate has committed it"},
		"skipped":                   {at(5, schemas.Skip), nil, why.Skipped, "skips it"},
		"an open letter":            {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), deadLetter(at(5, schemas.Immediate), "open", "customers")), why.DeadLetter, "rejected: 400 Bad Request (letter 0:7, open)"},
		"one of another mapping":    {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), deadLetter(at(5, schemas.Immediate), "open", "orders")), why.Confirmed, ""},
		"of a former name":          {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), former("customers")), why.DeadLetter, "open"},
		"of a former name, bare":    {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), former("")), why.DeadLetter, "open"},
		"of a mapping that is gone": {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), former("another")), why.Confirmed, ""},
		"one of an earlier topic":   {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), deadLetter(another, "open", "customers")), why.Confirmed, ""},
		"replayed, and open again":  {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), deadLetter(at(5, schemas.Immediate), "done", "customers"), deadLetter(at(5, schemas.Immediate), "open", "customers")), why.DeadLetter, "open"},
		"replayed in vain":          {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), deadLetter(at(5, schemas.Immediate), "open", "customers"), deadLetter(at(5, schemas.Immediate), "done", "customers")), why.DeadLetter, "open"},
		"replayed":                  {at(5, schemas.Immediate), letter(at(5, schemas.Immediate), deadLetter(at(5, schemas.Immediate), "done", "")), why.DeadLetter, "replayed"},
		"refused, and waits":        {bad(15), nil, why.Waiting, "it will be a dead letter"},
		"refused, without a letter": {bad(5), nil, why.Unknown, "its dead letter is not there"},
		"of earlier routes":         {at(5, schemas.Immediate), func(s *why.State) { change(s, schemas.Immediate, epoch(8)) }, why.Unknown, "count from offset 8 on"},
		"before the group began": {at(5, schemas.Immediate), func(s *why.State) {
			change(s, schemas.Immediate, func(l *why.Ledger) { epoch(8)(l); l.Routes.First = true })
		}, why.Unknown, "where group sink-immediate began"},
		"routes of another file": {at(5, schemas.Immediate), func(s *why.State) {
			change(s, schemas.Immediate, func(l *why.Ledger) { l.Routes.Epochs[0].Fingerprint++ })
		}, why.Unknown, "applies other routes"},
		"skipped by earlier routes": {at(5, schemas.Skip), func(s *why.State) { change(s, schemas.Immediate, epoch(8)) }, why.Unknown, "earlier routes"},
		"a tool's offset": {at(5, schemas.Immediate), func(s *why.State) {
			s.Ledgers[schemas.Immediate][partition] = why.LedgerOf(cluster.Commit{Offset: 10}, ack.TopicID{})
		}, why.Unknown, "another tool"},
		"beyond a tool's offset": {at(15, schemas.Immediate), func(s *why.State) {
			s.Ledgers[schemas.Immediate][partition] = why.LedgerOf(cluster.Commit{Offset: 10}, ack.TopicID{})
		}, why.Waiting, "up to offset 10"},
		"a damaged ledger": {at(5, schemas.Immediate), func(s *why.State) {
			s.Ledgers[schemas.Immediate][partition] = why.LedgerOf(cluster.Commit{Offset: 10, Metadata: "feedsink3.AAAA"}, ack.TopicID{})
		}, why.Unknown, "damaged"},
		"written once more": {at(5, schemas.Immediate), func(s *why.State) { change(s, schemas.Batch, func(l *why.Ledger) { l.Offset, l.Routes.Resend = 2, 8 }) }, why.Waiting, "writes it once more"},
		"in an import": {at(15, schemas.Batch), func(s *why.State) {
			change(s, schemas.Batch, func(l *why.Ledger) {
				l.Imports = []ack.Import{{State: ack.Running, Table: "profile/customers", File: "f.csv.gz", Execution: "12", UpTo: 16}}
			})
		}, why.Waiting, "import f.csv.gz runs as execution 12"},
		"behind an import": {at(16, schemas.Batch), func(s *why.State) {
			change(s, schemas.Batch, func(l *why.Ledger) {
				l.Imports = []ack.Import{{State: ack.Running, Table: "profile/customers", File: "f.csv.gz", Execution: "12", UpTo: 16}}
			})
		}, why.Waiting, "group sink-batch has committed up to offset 10"},
		"halted": {at(15, schemas.Batch), func(s *why.State) {
			change(s, schemas.Batch, func(l *why.Ledger) {
				l.Halts = []ack.Halt{{Mapping: flood.HashOf("customers"), Code: "rejected", Status: 400}}
			})
		}, why.Waiting, "feedsink imports release --mapping customers"},
		"what the sink says": {at(15, schemas.Batch), func(s *why.State) {
			s.Waits = []observe.Wait{{Lane: "immediate", Why: "calls"}, {Lane: "batch", Mapping: "customers", Why: "a slot"}}
		}, why.Waiting, "a slot; group"},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(t)
			if c.change != nil {
				c.change(s)
			}
			got := s.Judge("C1", []why.Found{c.record}).Records[0]
			if got.Verdict != c.want || !strings.Contains(got.Why, c.why) {
				t.Errorf("got %s (%s), want %s (…%s…)", got.Verdict, got.Why, c.want, c.why)
			}
		})
	}
}

func TestLedgerOfAnEarlierTopicConfirmsNothing(t *testing.T) {
	old := ack.Ledger{Topic: ack.TopicID{1}}
	metadata, _, err := old.Encode(10, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	s := world(t)
	s.Ledgers[schemas.Immediate][partition] = why.LedgerOf(cluster.Commit{Offset: 10, Metadata: metadata}, ack.TopicID{2})
	got := s.Judge("C1", []why.Found{at(5, schemas.Immediate)}).Records[0]
	if got.Verdict != why.Waiting || !strings.Contains(got.Why, "earlier topic") {
		t.Errorf("got %s (%s), want it to wait, as the ledger is of an earlier topic", got.Verdict, got.Why)
	}
}

// A pause ends by itself, and its end is told.
func TestRecordOfTheOpenFileTellsUntilWhen(t *testing.T) {
	s := world(t)
	s.Due = time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC)
	got := s.Judge("C1", []why.Found{at(15, schemas.Batch), at(16, schemas.Immediate)}).Records
	if !got[0].Until.Equal(s.Due) || !strings.Contains(got[0].Why, "open file") {
		t.Errorf("a row: got %q until %v, want the open file until %v", got[0].Why, got[0].Until, s.Due)
	}
	if !got[1].Until.IsZero() || strings.Contains(got[1].Why, "file") {
		t.Errorf("a call: got %q until %v, want no file", got[1].Why, got[1].Until)
	}
}

func TestPausedRecordTellsUntilWhen(t *testing.T) {
	s := world(t)
	until := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	s.Pauses.Learn([]ack.Pause{{Mapping: flood.HashOf("customers"), Batch: true, At: 1, Until: until.UnixMilli(), Reason: "the table is rebuilt"}})
	k := s.Judge("C1", []why.Found{at(15, schemas.Batch)})
	if got := k.Records[0]; !got.Until.Equal(until) || !strings.Contains(k.Answer, "the table is rebuilt") {
		t.Errorf("got until %v and %q, want %v and the reason", got.Until, k.Answer, until)
	}
}

// What replaces a record is the next one that is sure to be applied; a confirmed one settles
// what the record before it can still do.
func TestRecordThatANewerOneReplacedIsSuperseded(t *testing.T) {
	s := world(t)
	change(s, schemas.Immediate, func(l *why.Ledger) { l.Offset = 20 })
	patch := at(16, schemas.Immediate)
	patch.Write.Op = schemas.Patch
	badOne := at(13, schemas.Immediate)
	s.Letters = map[cluster.RecordPlace][]why.Letter{{TopicPartition: partition, Offset: 13}: {deadLetter(badOne, "open", "customers")}}
	k := s.Judge("C1", []why.Found{at(5, schemas.Batch), at(12, schemas.Batch), badOne, at(15, schemas.Immediate), patch, at(30, schemas.Immediate)})
	by := func(i int) int64 {
		if k.Records[i].ReplacedBy == nil {
			return -1
		}
		return *k.Records[i].ReplacedBy
	}
	for i, want := range []struct {
		verdict why.Verdict
		by      int64
	}{{why.Confirmed, 12}, {why.Superseded, 15}, {why.DeadLetter, 15}, {why.Confirmed, 30}, {why.Confirmed, 30}, {why.Waiting, -1}} {
		if got := k.Records[i].Verdict; got != want.verdict || by(i) != want.by {
			t.Errorf("%s: got %s, replaced by %d; want %s, by %d", &k.Records[i], got, by(i), want.verdict, want.by)
		}
	}
	if k.Newest != 5 || !strings.Contains(k.Answer, "The newest state (customers[0]@30) waits") || !strings.Contains(k.Answer, "of older records 1 is not confirmed") {
		t.Errorf("got %d, %q", k.Newest, k.Answer)
	}
}

// The row holds what came before a dead letter.
func TestAnswerTellsTheStateBeforeADeadLetter(t *testing.T) {
	s := world(t)
	bad, worse := at(6, schemas.Immediate), at(7, schemas.Immediate)
	s.Letters = map[cluster.RecordPlace][]why.Letter{
		{TopicPartition: partition, Offset: 6}: {deadLetter(bad, "open", "customers")}, {TopicPartition: partition, Offset: 7}: {deadLetter(worse, "open", "customers")},
	}
	got := s.Judge("C1", []why.Found{at(5, schemas.Immediate), bad, worse}).Answer
	if want := "The newest record (customers[0]@7) is a dead letter, rejected: 400 Bad Request (letter 0:7, open); the state before it (customers[0]@5) is confirmed."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Records of several partitions are told by time, those of one in its order.
func TestRecordsOfSeveralPartitionsAreToldByTime(t *testing.T) {
	s := world(t)
	elsewhere := at(5, schemas.Immediate)
	elsewhere.Record = &kafka.Record{Topic: "customers", Partition: 1, Offset: 0, Timestamp: noon.Add(3 * time.Second)}
	late := at(1, schemas.Immediate)
	late.Timestamp = noon.Add(time.Minute) // its producer's clock was ahead
	k := s.Judge("C1", []why.Found{late, at(2, schemas.Immediate), elsewhere})
	var got []string
	for i := range k.Records {
		got = append(got, k.Records[i].String())
	}
	if strings.Join(got, " ") != "customers[1]@0 customers[0]@1 customers[0]@2" || !strings.Contains(k.Answer, "2 partitions") {
		t.Errorf("got %v, %q", got, k.Answer)
	}
}

func TestKeyWithoutARecordHasAListOfNone(t *testing.T) {
	var s why.State
	if got := s.Judge("C1", nil).Records; got == nil || len(got) != 0 {
		t.Errorf("got %#v, want a list without elements", got)
	}
}
