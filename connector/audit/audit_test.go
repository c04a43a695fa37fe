package audit

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/avro"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/schemas"
)

// An error in what an audit judges must not cancel out: it shares no code with it.
func TestAuditImportsNothingOfOurs(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("got %v, %v, want the package's files", files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); strings.HasPrefix(path, "github.com/feedsink/") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

func TestReceiptIsReadAsItIsWritten(t *testing.T) {
	w := receipt.Receipt{
		Topic: "crm", Partition: 3, Offset: 41, Part: 1, Parts: 2, Lane: schemas.Batch, Mapping: "customers", Op: schemas.Patch,
		Outcome: receipt.DeadLetter, Status: 422, Execution: "17,18", Row: receipt.InError,
		Written: time.UnixMilli(1000), Assigned: time.UnixMilli(2000), Started: time.UnixMilli(2500), Ended: time.UnixMilli(3000), Key: receipt.Key{ID: "0a0b0c0d"},
	}
	all, err := avro.Parse(schemaText(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := openReceipt(all, w.Append(nil))
	want := receiptOf("crm", 3, 41)
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := openReceipt(all, append(w.Append(nil), 0)); err == nil {
		t.Error("one byte more: got no error")
	}
}

func receiptOf(topic string, partition int32, offset int64) (r wire) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	r.Topic, r.Partition, r.Offset, r.Part, r.Parts, r.Lane, r.Mapping, r.Op, r.Outcome = topic, partition, offset, 1, 2, "batch", "customers", "patch", "dead_letter"
	r.Status, r.Execution, r.Row, r.Written, r.Assigned, r.Started, r.Ended, r.KeyID = 422, "17,18", "error", at(1000), at(2000), at(2500), at(3000), "0a0b0c0d"
	return r
}

func schemaText(tb testing.TB) string {
	tb.Helper()
	text, err := schemas.Files.ReadFile("receipt.avsc")
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func someLedger() ack.Ledger {
	return ack.Ledger{
		Topic: ack.TopicID{9, 8, 7}, Done: ack.Ranges{{From: 105, To: 107}, {From: 200, To: 201}},
		Imports: []ack.Import{
			{State: ack.Running, Table: "profile/customers", Mode: "DELETE", File: "c.csv", Execution: "5", UpTo: 150, Since: 90, Fingerprint: 3, Part: 1, Parts: 2, Attempt: 1},
			{State: ack.Rebuild, Table: "custom/orders", File: "o.csv", UpTo: 99},
		},
		Slots:  []ack.Slots{{Table: "profile/customers", Used: []int64{900, 900, 1800}}, {Table: "custom/orders"}},
		Routes: ack.Routes{Changed: 77, First: true, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1, From: 40}, {Fingerprint: 2, From: 60}}, Peer: ack.Peer{Changed: 5, Watermark: 20}, Resend: 50},
		Halts:  []ack.Halt{{Mapping: 4, Stage: "TASK_PUT", Code: "rejected", Status: 400}},
		Pauses: []ack.Pause{{Mapping: 4, Batch: true, At: 10, Reason: "Monday"}},
	}
}

func TestLedgerIsReadAsItIsWritten(t *testing.T) {
	own := someLedger()
	text, _, err := own.Encode(100, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(text, 100)
	if err != nil || l.topic != own.Topic || !slices.Equal(l.done, []span{{105, 107}, {200, 201}}) || l.routes != (routes{changed: 77, first: true, shared: true, lowest: 40, highest: 60}) {
		t.Errorf("got %+v, %v", l, err)
	}
	if len(l.imports) != 2 || l.imports[0].upTo != 150 || l.imports[0].execution != "5" || l.imports[1].upTo != 99 || !slices.Equal(l.slots["profile/customers"], []int64{900, 900, 1800}) {
		t.Errorf("got %+v, want its imports and slots", l)
	}
	for offset, want := range map[int64]bool{0: true, 99: true, 100: false, 104: false, 105: true, 106: true, 107: false, 200: true, 201: false} {
		if got := l.confirmed(100, offset); got != want {
			t.Errorf("offset %d is confirmed: got %v, want %v", offset, got, want)
		}
	}
	for name, bad := range map[string]string{"none": "", "foreign": "hello", "a newer version": "feedsink9." + text[10:], "cut": text[:len(text)-4], "base64": "feedsink3.!", "short": "feedsink3.AAAA"} {
		if _, err := openLedger(bad, 100); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// Whatever the one that writes it reads, this reads as the same, and nothing else.
func FuzzLedger(f *testing.F) {
	own := someLedger()
	text, _, err := own.Encode(100, ack.MetadataLimit)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, int64(100))
	f.Add("feedsink2."+text[10:], int64(7))
	f.Fuzz(func(t *testing.T, text string, committed int64) {
		if committed < 0 || committed > 1<<50 {
			return
		}
		want, failed := ack.Decode(text, committed)
		got, err := openLedger(text, committed)
		if failed != nil || err != nil {
			return
		}
		if len(want.Done) != len(got.done) || len(want.Imports) != len(got.imports) || want.Routes.Known() != got.routes.known() {
			t.Errorf("got %+v, want %+v", got, want)
		}
		for i, r := range want.Done {
			if got.done[i] != (span{r.From, r.To}) {
				t.Errorf("done %d: got %v, want %v", i, got.done[i], r)
			}
		}
	})
}

func FuzzReceipt(f *testing.F) {
	all, err := avro.Parse(schemaText(f))
	if err != nil {
		f.Fatal(err)
	}
	w := receipt.Receipt{Topic: "t", Lane: schemas.Immediate, Parts: 1, Ended: time.UnixMilli(1)}
	f.Add(w.Append(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		got, err := openReceipt(all, value)
		want, failed := receipt.Open(nil, value)
		if err == nil && failed == nil && (got.Offset != want.Offset || got.Topic != want.Topic || got.Outcome != want.Outcome.String()) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		got.shape()
	})
}

func TestDeadLetterIsReadAsItIsWritten(t *testing.T) {
	own := []Header{{"trace", []byte("x")}, {"__connect.errors.topic", []byte("before")}}
	all := append(own, []Header{
		{"__connect.errors.topic", []byte("crm")},
		{"__connect.errors.partition", []byte("3")},
		{"__connect.errors.offset", []byte("41")},
		{"__connect.errors.connector.name", []byte("sink")},
		{"__connect.errors.stage", []byte(deadletter.Delivering)},
		{"feedsink.mapping", []byte("customers")},
		{"feedsink.lane", []byte("batch")},
		{"feedsink.replay.attempts", []byte("2")},
	}...)
	l, ok := openLetter(all, "sink")
	want := letter{topic: "crm", partition: 3, offset: 41, mapping: "customers", lane: "batch", replayed: true}
	if !ok || l != want {
		t.Errorf("got %+v, %v, want %+v", l, ok, want)
	}
	for name, headers := range map[string][]Header{"none": nil, "no coordinates": all[5:], "another offset": append(slices.Clone(all[:4]), Header{"__connect.errors.offset", []byte("x")})} {
		if l, ok := openLetter(headers, "sink"); ok {
			t.Errorf("%s: got %+v, want that it is none", name, l)
		}
	}
	if _, ok := openLetter(all, "another"); ok {
		t.Error("another deployment's: got that it is ours")
	}
}

func TestSorterGivesAllInOrderWhateverMemoryHolds(t *testing.T) {
	for _, room := range []int{1, 3, 100} {
		s := sorter{dir: t.TempDir(), room: room, compare: byPlace}
		for i := range 20 {
			if err := s.add(&entry{partition: int32(i % 3), offset: int64(i * 7 % 20), at: int64(i), key: [16]byte{byte(i)}, lane: Batch, letter: i%2 == 0}); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.sorted()
		if err != nil {
			t.Fatal(err)
		}
		var last *entry
		n := 0
		for e := all.peek(); e != nil; e = all.peek() {
			own := *e
			if last != nil && byPlace(last, &own) >= 0 {
				t.Errorf("room %d: got %+v behind %+v", room, own, *last)
			}
			if own.key[0] != byte(own.at) || own.lane != Batch || own.letter != (own.at%2 == 0) {
				t.Errorf("room %d: got %+v, want it as it was added", room, own)
			}
			last = &own
			n++
			if err := all.next(); err != nil {
				t.Fatal(err)
			}
		}
		if n != 20 {
			t.Errorf("room %d: got %d, want 20", room, n)
		}
		if left, _ := os.ReadDir(s.dir); len(left) > 0 {
			t.Errorf("room %d: got files %v left", room, left)
		}
		s.close()
	}
}
