package connector

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/retry"
)

// aheadOf reads with so many goroutines what batchLane routes.
func aheadOf(t *testing.T, readers int) *ahead {
	t.Helper()
	a := &ahead{}
	routes := batchLane(t).Router
	var filed []files.Mapping
	for _, m := range routes.Mappings() {
		m.Config.Imports.Roll.Bytes, m.Config.Imports.Roll.Age = 1, time.Hour
		filed = append(filed, build.BatchMapping(m))
		filed[len(filed)-1].DualLane = false
	}
	b, err := batcher.New(batcher.Config{
		Dir: t.TempDir(), MaxBytes: 1 << 20, Poll: retry.Backoff{Initial: 1, Max: 1}, Retry: retry.Backoff{Initial: 1, Max: 1}, Grace: 1,
	}, filed, nil, nil, nil, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	for range readers {
		encoders, err := encodersOf(routes, b)
		if err != nil {
			t.Fatal(err)
		}
		a.readers = append(a.readers, &rowReader{Reader: batchLane(t).Reader, encoders: encoders})
	}
	return a
}

// mixed are records of which most mean a row; every 7th is broken, every 11th is
// none of the table's, every 13th is long, every 17th is skipped.
func mixed(n int) (records []*kafka.Record) {
	for i := range n {
		value := fmt.Appendf(nil, `{"businessKey":"k%d","properties":{"name":"n%d"}}`, i%10, i)
		switch {
		case i%7 == 0:
			value = value[:len(value)-1]
		case i%11 == 0:
			value = bytes.Replace(value, []byte("properties"), []byte("other"), 1)
		case i%13 == 0:
			value = append(value, bytes.Repeat([]byte(" "), longestAhead)...)
		case i%17 == 0:
			value = bytes.Replace(value, []byte(`"name"`), []byte(`"test":true,"name"`), 1)
		}
		records = append(records, &kafka.Record{Topic: "rows", Offset: int64(i), Value: value})
	}
	return records
}

// TestWhatIsReadAheadIsWhatTheRecordMeans at whichever goroutine, and of each
// record its own.
func TestWhatIsReadAheadIsWhatTheRecordMeans(t *testing.T) {
	for _, readers := range []int{1, 2, mostReaders} {
		a := aheadOf(t, readers)
		for _, n := range []int{1, chunkRecords, chunkRecords + 1, 1000, 10} {
			a.begin(mixed(n))
			for i := range n {
				c, m := a.prepared(i)
				plain := i%7 != 0 && i%11 != 0 && i%13 != 0
				if m.known != plain {
					t.Fatalf("record %d of %d: got known %v, want %v", i, n, m.known, plain)
				}
				if !plain {
					continue
				}
				rows := c.rowsOf(m)
				if m.skipped != (i%17 == 0) {
					t.Errorf("record %d of %d: got skipped %v", i, n, m.skipped)
				}
				if m.skipped {
					if len(rows) > 0 {
						t.Errorf("record %d of %d: got %d rows, want it skipped", i, n, len(rows))
					}
					continue
				}
				if len(rows) != 1 || rows[0].mapping.Name != "rows" {
					t.Fatalf("record %d of %d: got %+v, want one row of the mapping rows", i, n, rows)
				}
				text := c.text[rows[0].from:rows[0].to]
				if !bytes.HasSuffix(text, fmt.Appendf(nil, "n%d", i)) {
					t.Errorf("record %d of %d: got row %q, want one that ends with n%d", i, n, text, i)
				}
			}
			a.end()
		}
	}
}

// TestReadingAheadEndsWithItsOwner whose records were not all taken: nobody reads
// any more, and what is begun next is read.
func TestReadingAheadEndsWithItsOwner(t *testing.T) {
	a := aheadOf(t, mostReaders)
	for range 50 {
		a.begin(mixed(1000))
		if _, m := a.prepared(0); m.known {
			t.Fatal("record 0: got it known, want it left to its turn")
		}
		a.end()
		for i := range a.chunks {
			if a.chunks[i].records != nil {
				t.Fatal("records are held that nobody reads")
			}
		}
	}
}
