package why_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// search looks for keys in records, which get offsets in their order.
func search(t *testing.T, r *router.Router, decoders []why.Decode, keys []string, records ...*kafka.Record) []why.Found {
	t.Helper()
	s := &why.Search{Router: r, Mapping: r.Mappings()[0], Keys: keys, Decoders: decoders}
	found, err := s.Run(t.Context(), func(_ context.Context, each func(*kafka.Record) error) error {
		for i, rec := range records {
			rec.Topic, rec.Offset = r.Mappings()[0].Config.Topics[0], int64(i)
			if err := each(rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// decoders counts the records that are decoded.
func decoders(r *router.Router, n int, decoded *int) (all []why.Decode) {
	for range n {
		d := decode.NewReader(r, nil)
		all = append(all, func(rec *kafka.Record) (*router.Record, error) {
			if decoded != nil {
				*decoded++
			}
			return d.Decode(rec)
		})
	}
	return all
}

// However a record writes its key, it is found, and few others are decoded.
func TestSearchMissesNoSpellingOfAKey(t *testing.T) {
	r := compiled(t)
	value := func(key, value string) *kafka.Record { return &kafka.Record{Key: []byte(key), Value: []byte(value)} }
	records := []*kafka.Record{
		value("x", `{"key":{"number":"A7"},"segments":{"tier":"gold"}}`),
		value("x", `{"key":{"number":"\u0041\u0037"}}`),
		value("x", `{"attributes":{"number":"A7"}}`),
		value("x", `{"key":{"number":"A7"},"attributes":{"name":7}}`), // refused
		value("x", `{"key":{"number":"A7"},"segments":{"tier":"test"}}`),
		value("A7", `{"op":"upsort"}`),
		value("A7", `{"key":`),
		{Key: []byte("A7")}, // a tombstone
		value("x", `{"key":{"number":"A77"}}`),
		value("A7", `{"key":{"number":"B"}}`),
	}
	for i := range 1000 {
		records = append(records, value("x", fmt.Sprintf(`{"key":{"number":"B%d"}}`, i)))
	}
	decoded := 0
	found := search(t, r, decoders(r, 1, &decoded), []string{"A7"}, records...)
	var got []int64
	for _, f := range found {
		got = append(got, f.Offset)
	}
	if !slices.Equal(got, []int64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("got the records %v, want those from 0 to 7", got)
	}
	if decoded != 10 {
		t.Errorf("got %d records decoded, want the 10 that may be of the key", decoded)
	}
	if f := found[4]; f.Lane != schemas.Skip || f.ByRecordKey {
		t.Errorf("the skipped one: got lane %s, by the record's key %v", f.Lane, f.ByRecordKey)
	}
	if !found[5].ByRecordKey || !found[6].ByRecordKey || found[7].ByRecordKey {
		t.Error("want the two without a row, and no tombstone, named by the record's key")
	}
}

// Several goroutines find what one finds, in order; numbers are keys too.
func TestSearchOfSeveralGoroutinesIsInOrder(t *testing.T) {
	r := compiled(t)
	var records []*kafka.Record
	for i := range 5000 {
		records = append(records, &kafka.Record{Value: fmt.Appendf(nil, `{"key":{"number":%d}}`, i%100)})
	}
	found := search(t, r, decoders(r, 4, nil), []string{"7", "8", "9", "1", "2", "3", "4", "5", "6"}, records...) // too many to look for as bytes
	if len(found) != 450 || !slices.IsSortedFunc(found, func(a, b why.Found) int { return int(a.Offset - b.Offset) }) {
		t.Errorf("got %d records, want 450, by their offsets", len(found))
	}
}

func TestSearchEndsWithWhatKeepsARecordFromBeingDecoded(t *testing.T) {
	r := compiled(t)
	away := errors.New("the registry is away")
	s := &why.Search{Router: r, Mapping: r.Mappings()[0], Keys: []string{"7"}, Decoders: []why.Decode{func(*kafka.Record) (*router.Record, error) { return nil, away }}}
	_, err := s.Run(t.Context(), func(_ context.Context, each func(*kafka.Record) error) error {
		for {
			if err := each(&kafka.Record{Topic: "customers", Offset: 3, Value: []byte(`7`)}); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, away) || !strings.Contains(err.Error(), "customers[0] at offset 3") {
		t.Errorf("got %v, want what the decoder says, and of which record", err)
	}
}
