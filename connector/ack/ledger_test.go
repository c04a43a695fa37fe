package ack_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

func sample(rnd *rand.Rand, watermark int64) ack.Ledger {
	var l ack.Ledger
	for i := range l.Topic {
		l.Topic[i] = byte(rnd.Uint32())
	}
	at := watermark
	for range rnd.IntN(40) {
		from := at + 1 + rnd.Int64N(300)
		at = from + 1 + rnd.Int64N(1000)
		l.Done = append(l.Done, ack.Range{From: from, To: at})
	}
	for range rnd.IntN(3) {
		l.Imports = append(l.Imports, ack.Import{
			Table: "customers", Mode: "CREATE_OR_UPDATE", File: "customers-20261121T100000Z-1.csv.gz",
			Execution: strings.Repeat("7", rnd.IntN(30)), UpTo: watermark + rnd.Int64N(1e6), Fingerprint: rnd.Uint64(),
			State: ack.State(rnd.IntN(4)), Part: 1, Parts: 1 + rnd.IntN(3), Attempt: 1 + rnd.IntN(2),
		})
	}
	l.Routes = ack.Routes{
		Changed: rnd.Int64N(1 << 45), First: rnd.IntN(2) == 0, Passed: rnd.IntN(2) == 0, Hold: rnd.IntN(2) == 0, Shared: rnd.IntN(2) == 0, Resend: rnd.Int64N(1 << 40),
		Peer: ack.Peer{Changed: rnd.Int64N(1 << 45), Watermark: rnd.Int64N(1 << 40)},
	}
	for range rnd.IntN(3) {
		l.Routes.Epochs = append(l.Routes.Epochs, ack.Epoch{Fingerprint: rnd.Uint64(), From: rnd.Int64N(1 << 40)})
	}
	for range rnd.IntN(2) {
		l.Slots = append(l.Slots, ack.Slots{Table: "orders", Used: []int64{1795000000, 1795000000, 1795000001, 1795070000}})
	}
	for range rnd.IntN(3) {
		l.Halts = append(l.Halts, ack.Halt{Mapping: rnd.Uint64(), Stage: "TASK_PUT", Code: "rejected", Status: rnd.IntN(600)})
	}
	for range rnd.IntN(3) {
		l.Pauses = append(l.Pauses, ack.Pause{Mapping: rnd.Uint64(), Batch: rnd.IntN(2) == 0, Resumed: rnd.IntN(2) == 0, At: rnd.Int64N(1 << 45), Until: rnd.Int64N(1 << 45), Reason: "the table is rebuilt"[:rnd.IntN(20)]})
	}
	for range rnd.IntN(3) {
		l.Refuse(rnd.Int64N(1<<40), 0, true)
	}
	return l
}

func TestLedgerSurvivesItsEncoding(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		watermark := rnd.Int64N(1 << 40)
		want := sample(rnd, watermark)
		metadata, dropped, err := want.Encode(watermark, ack.MetadataLimit)
		if err != nil || dropped != 0 {
			t.Fatalf("encode: dropped %d, %v", dropped, err)
		}
		got, err := ack.Decode(metadata, watermark)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("round trip:\n got %+v\nwant %+v", got, want)
		}
	}
}

func TestLedgerThatIsTooLongLosesThePausesReasonsFirst(t *testing.T) {
	l := ack.Ledger{Done: ack.Ranges{{From: 20, To: 30}}, Pauses: []ack.Pause{{Mapping: 1, At: 5, Reason: strings.Repeat("x", 100)}, {Mapping: 2, At: 6}}}
	metadata, dropped, err := l.Encode(7, 128)
	if err != nil || dropped != 0 {
		t.Fatalf("encode: dropped %d, %v, want all ranges", dropped, err)
	}
	got, err := ack.Decode(metadata, 7)
	want := []ack.Pause{{Mapping: 1, At: 5}, {Mapping: 2, At: 6}}
	if err != nil || !slices.Equal(got.Pauses, want) {
		t.Errorf("got %+v, %v, want %+v", got.Pauses, err, want)
	}
	if l.Pauses[0].Reason == "" {
		t.Error("the ledger itself has lost the reason")
	}
}

func TestLedgerWithoutHaltsSpendsNothingOnThem(t *testing.T) {
	l := ack.Ledger{Slots: []ack.Slots{{Table: "orders", Used: []int64{1795000000}}}}
	metadata, _, err := l.Encode(7, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	l.Halts = []ack.Halt{{Mapping: 1, Stage: "TASK_PUT", Code: "rejected", Status: 400}}
	with, _, err := l.Encode(7, ack.MetadataLimit)
	if err != nil || len(with) <= len(metadata) {
		t.Fatalf("with a halt: got %d characters, %v, want more than %d", len(with), err, len(metadata))
	}
	got, err := ack.Decode(metadata, 7)
	if err != nil || got.Halts != nil {
		t.Errorf("without: got %v, %v, want no halts", got.Halts, err)
	}
}

func TestLedgerDropsHighestDoneFirst(t *testing.T) {
	var l ack.Ledger
	for i := range int64(5000) {
		l.Done = append(l.Done, ack.Range{From: i*10 + 5, To: i*10 + 8})
	}
	metadata, dropped, err := l.Encode(0, ack.MetadataLimit)
	if err != nil || dropped == 0 || len(metadata) > ack.MetadataLimit {
		t.Fatalf("encode: %d characters, dropped %d, %v", len(metadata), dropped, err)
	}
	got, err := ack.Decode(metadata, 0)
	if err != nil || !reflect.DeepEqual(got.Done, l.Done[:len(l.Done)-dropped]) {
		t.Errorf("decode: %v; got %d ranges, want the lowest %d", err, len(got.Done), len(l.Done)-dropped)
	}
}

func TestAnyNumberOfSlotsTakesLittleRoom(t *testing.T) {
	l := ack.Ledger{Slots: []ack.Slots{{Table: "orders"}}}
	for quarter := range int64(200) { // 50 hours
		for range 500 {
			l.Slots[0].Used = append(l.Slots[0].Used, 1795000000+quarter*900)
		}
	}
	metadata, _, err := l.Encode(0, ack.MetadataLimit)
	if err != nil || len(metadata) > ack.MetadataLimit/3 {
		t.Errorf("100,000 imports: got %d characters, %v, want at most a third of the room", len(metadata), err)
	}
	got, err := ack.Decode(metadata, 0)
	if err != nil || !reflect.DeepEqual(got.Slots, l.Slots) {
		t.Errorf("decode: got %v and other slots", err)
	}
}

func TestLedgerNeverDropsImports(t *testing.T) {
	l := ack.Ledger{Done: ack.Ranges{{From: 1, To: 2}}, Imports: []ack.Import{{File: strings.Repeat("f", 4000)}}}
	if _, _, err := l.Encode(0, ack.MetadataLimit); !errors.Is(err, ack.ErrTooLarge) {
		t.Errorf("encode: got %v, want ErrTooLarge", err)
	}
}

func TestDecodeTellsForeignFromDamaged(t *testing.T) {
	var l ack.Ledger
	good, _, _ := l.Encode(7, ack.MetadataLimit)
	flipped := []byte(good)
	flipped[len(flipped)-8] ^= 1
	for name, c := range map[string]struct {
		metadata string
		want     error
	}{
		"empty":            {"", nil},
		"ours":             {good, nil},
		"kgo's member id":  {"kgo-4f1f", ack.ErrForeign},
		"a later version":  {"feedsink4.AAAA", ack.ErrForeign},
		"cut off":          {good[:len(good)-6], ack.ErrDamaged},
		"a flipped bit":    {string(flipped), ack.ErrDamaged},
		"not base64":       {"feedsink3.!!!!", ack.ErrDamaged},
		"nothing after it": {"feedsink3.", ack.ErrDamaged},
	} {
		if _, err := ack.Decode(c.metadata, 7); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestLedgerOfVersion2IsUnderstoodAndKnowsNoRoutes(t *testing.T) {
	const written = "feedsink2.AQIDAAAAAAAAAAAAAAAAAAEFBQEBCWN1c3RvbWVycxBDUkVBVEVfT1JfVVBEQVRFCGYuY3N2Lmd6ATcGCgAAAAAAAAAqAQEBAQljdXN0b21lcnMBgJvsrw0BSIlQ3g"
	got, err := ack.Decode(written, 1000)
	if err != nil {
		t.Fatal(err)
	}
	want := ack.Ledger{
		Topic: ack.TopicID{1, 2, 3}, Done: ack.Ranges{{From: 1005, To: 1010}},
		Imports: []ack.Import{{
			State: ack.Running, Table: "customers", Mode: "CREATE_OR_UPDATE", File: "f.csv.gz", Execution: "7",
			UpTo: 1003, Since: 990, Fingerprint: 42, Part: 1, Parts: 1, Attempt: 1,
		}},
		Slots:  []ack.Slots{{Table: "customers", Used: []int64{1795000000}}},
		Routes: ack.Routes{Changed: 1, Passed: true},
	}
	if !reflect.DeepEqual(got, want) || got.Routes.Known() {
		t.Errorf("decoded:\n got %+v\nwant %+v, its routes not known", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		l := sample(rnd, 1000)
		s, _, _ := l.Encode(1000, ack.MetadataLimit)
		f.Add(s, int64(1000))
	}
	f.Fuzz(func(t *testing.T, metadata string, watermark int64) {
		l, err := ack.Decode(metadata, watermark%(1<<50))
		if err != nil && !reflect.DeepEqual(l, ack.Ledger{}) {
			t.Errorf("an error came with a ledger: %v", err)
		}
	})
}

func FuzzRanges(f *testing.F) {
	f.Add([]byte{1, 3, 2, 5, 9, 1, 0, 12})
	f.Fuzz(func(t *testing.T, in []byte) {
		var rs ack.Ranges
		var want [300]bool
		for i := 0; i+1 < len(in); i += 2 {
			r := ack.Range{From: int64(in[i]), To: int64(in[i]) + int64(in[i+1]%32)}
			if in[i+1] >= 128 {
				rs = rs.Remove(r)
			} else {
				rs = rs.Add(r)
			}
			for o := r.From; o < r.To; o++ {
				want[o] = in[i+1] < 128
			}
		}
		for o := range int64(len(want)) {
			if got := rs.Contains(o); got != want[o] {
				t.Fatalf("contains(%d): got %v, want %v in %v", o, got, want[o], rs)
			}
		}
		for i := range rs {
			if rs[i].From >= rs[i].To || i > 0 && rs[i-1].To >= rs[i].From {
				t.Fatalf("not sorted and apart: %v", rs)
			}
		}
	})
}
