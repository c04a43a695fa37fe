package batcher

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// TestEncodedRowsGoTheWayOfWrites: into the same file, in their turn, under the
// same hold.
func TestEncodedRowsGoTheWayOfWrites(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(testMapping())
		e, err := w.b.Encoder("customers")
		if err != nil {
			t.Fatal(err)
		}
		first, last := write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "b", "z")
		rows := [][]byte{nil, nil}
		for i, one := range []*schemas.Write{&first, &last} {
			if rows[i], err = e.AppendRow(nil, one); err != nil {
				t.Fatal(err)
			}
		}
		e.Expect(rows[0]) // before there is a file
		check(t, e.File(rows[0], w.p, 100))
		w.add("customers", write(schemas.Upsert, "1", "a", "y,"), w.p, 101)
		e.Expect(append(rows[0], rows[1]...))
		check(t, e.File(rows[1], w.p, 102))
		time.Sleep(time.Hour)
		w.said(
			`1h0m0s intend upsert 1/1 attempt 1 "" holds 100-102`,
			`1h0m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,\"y,\",\n2,,z\n", <nil>`,
			`1h0m0s record upsert 1/1 attempt 1 "e1" holds 100-102`,
		)
	})
}

// TestEncoderLeavesToAppendWhatIsNoRow, and what Append has to see as a write.
func TestEncoderLeavesToAppendWhatIsNoRow(t *testing.T) {
	w := newWorld(t)
	told, plain := testMapping(), testMapping()
	told.Name, told.DualLane = "both", true
	delete(plain.Loads, schemas.Delete)
	w.open(Config{Peer: idlePeer{}}, plain, told)
	for _, c := range []struct {
		mapping string
		write   schemas.Write
	}{
		{"customers", write(schemas.Delete, "1")},
		{"customers", write(schemas.Upsert, "")},
		{"customers", write(schemas.Upsert, "1", "a", "\xff")},
		{"both", write(schemas.Upsert, "1")},
	} {
		e, err := w.b.Encoder(c.mapping)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.AppendRow([]byte("before"), &c.write); err == nil || string(got) != "before" {
			t.Errorf("row of %s for %s: got %q, %v, want an error and what was there", c.write.Op, c.mapping, got, err)
		}
	}
	if _, err := w.b.Encoder("orders"); err == nil {
		t.Error("encoder of an unknown mapping: got no error, want one")
	}
}
