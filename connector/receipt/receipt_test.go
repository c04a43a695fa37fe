package receipt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/avro"

	"github.com/feedsink/feedsink/schemas"
)

func sample() Receipt {
	return Receipt{
		Topic: "crm", Partition: 3, Offset: 41, Part: 1, Parts: 2, Lane: schemas.Batch, Mapping: "customers", Op: schemas.Patch,
		Outcome: DeadLetter, Status: 422, Execution: "17", Row: InError,
		Written: time.UnixMilli(1000), Assigned: time.UnixMilli(2000), Started: time.UnixMilli(2500), Ended: time.UnixMilli(3000),
		Key: Key{ID: "0a0b0c0d", Hash: [HashSize]byte{1, 2, 3}},
	}
}

// What is encoded by hand is what the published schema says.
func TestPublishedSchemaReadsAReceipt(t *testing.T) {
	text, err := schemas.Files.ReadFile("receipt.avsc")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := avro.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	r := sample()
	var got map[string]any
	rest, err := schema.DecodeSingleObject(r.Append(nil), &got)
	if err != nil || len(rest) > 0 {
		t.Fatalf("got %v, %d bytes left; want it read to its end", err, len(rest))
	}
	for name, want := range map[string]any{
		"topic": "crm", "partition": int32(3), "offset": int64(41), "part": int32(1), "parts": int32(2), "lane": "batch", "mapping": "customers",
		"op": "patch", "outcome": "dead_letter", "status": int32(422), "execution": "17", "row": "error", "keyId": "0a0b0c0d",
	} {
		if got[name] != want {
			t.Errorf("%s: got %v (%T), want %v", name, got[name], got[name], want)
		}
	}
	for name, want := range map[string]time.Time{"written": r.Written, "assigned": r.Assigned, "started": r.Started, "ended": r.Ended} {
		if at, ok := got[name].(time.Time); !ok || !at.Equal(want) {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
}

// Those that are like the one before are written as they would be alone.
func TestReceiptsOfAFileAreWrittenAsEachAlone(t *testing.T) {
	var w written
	var got, want []byte
	r := sample()
	for i, like := range []bool{false, true, true, false, true} {
		if !like {
			r.Mapping += "s"
		}
		r.Offset, r.Written = r.Offset*90, r.Written.Add(time.Duration(i)*time.Hour)
		w.take(&r, like)
		before := len(got)
		got, want = w.append(got), r.Append(want)
		if size := len(got) - before; w.size() != size {
			t.Errorf("its size: got %d, want %d", w.size(), size)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReceiptIsReadAsItWasWritten(t *testing.T) {
	for _, r := range []Receipt{sample(), {Topic: "t", Lane: schemas.Immediate, Parts: 1, Outcome: Skipped, Ended: time.UnixMilli(1)}} {
		got, err := Open(r.Key.Hash[:], r.Append(nil))
		if err != nil || got != r {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, r)
		}
	}
}

func TestWhatIsNoReceiptIsForeign(t *testing.T) {
	r := sample()
	whole := r.Append(nil)
	other := bytes.Clone(whole)
	other[4] ^= 1
	for name, value := range map[string][]byte{"empty": nil, "another schema": other, "cut": whole[:len(whole)-1], "longer": append(bytes.Clone(whole), 0)} {
		if _, err := Open(nil, value); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: got %v, want ErrForeign", name, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	r := sample()
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := Open(nil, value)
		if err != nil {
			return
		}
		if again, err := Open(nil, r.Append(nil)); err != nil || again != r {
			t.Errorf("got %+v, %v; want %+v", again, err, r)
		}
	})
}

func TestHashDependsOnSecretTableAndKey(t *testing.T) {
	keys := func(secret string) *Keys {
		k, err := NewKeys(func() (string, error) { return secret, nil }, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	one := keys("one")
	table := schemas.Table{Name: "customers"}
	h := one.Hash(table, "C1")
	if again := one.Hash(table, "C1"); again != h || h.ID == "" {
		t.Errorf("got %v and %v, want the same twice", h, again)
	}
	seen := map[string]bool{hex.EncodeToString(h.Hash[:]): true}
	for name, other := range map[string]Key{
		"key": one.Hash(table, "C2"), "table": one.Hash(schemas.Table{Name: "customer"}, "sC1"),
		"kind of table": one.Hash(schemas.Table{Name: "customers", Custom: true}, "C1"), "secret": keys("two").Hash(table, "C1"),
	} {
		if text := hex.EncodeToString(other.Hash[:]); seen[text] {
			t.Errorf("another %s: got the same hash", name)
		}
		seen[hex.EncodeToString(other.Hash[:])] = true
	}
	if none := one.Hash(table, ""); none != (Key{}) {
		t.Errorf("no key: got %v, want none", none)
	}
	without, err := NewKeys(nil, slog.New(slog.DiscardHandler))
	if err != nil || without.Hash(table, "C1") != (Key{}) {
		t.Errorf("no secret: got a hash, or %v", err)
	}
}

func BenchmarkHash(b *testing.B) {
	k, err := NewKeys(func() (string, error) { return "the secret of the bench", nil }, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		k.Hash(schemas.Table{Name: "customers"}, "C000123456")
	}
}

func TestSecretIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret, failure := "one", error(nil)
		k, err := NewKeys(func() (string, error) { return secret, failure }, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		table := schemas.Table{Name: "customers"}
		first := k.Hash(table, "C1")
		secret = "two"
		failure = errors.New("gone for a moment")
		time.Sleep(readAgain)
		if got := k.Hash(table, "C1"); got != first {
			t.Errorf("file not readable: got %v, want the last secret's %v", got, first)
		}
		failure = nil
		time.Sleep(readAgain)
		if got := k.Hash(table, "C1"); got.ID == first.ID || got.Hash == first.Hash {
			t.Errorf("rotated: got %v, want another id and another hash than %v", got, first)
		}
	})
}
