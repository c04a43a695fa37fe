package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/feedsink/feedsink/schemas"
)

// TestMain lets the test binary play the roles, as the bench itself does.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == roleArgument {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

func TestBothSidesOfTinyLinesAreMeasured(t *testing.T) {
	f, err := openField(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, l := range []line{
		{name: "calls", calling: &callJob{latency: time.Millisecond, inFlight: 8, calls: 1000, floorWorkers: 8, floorCalls: 1000}},
		{name: "json", decode: &decodeJob{schemas.FormatJSON, schemas.Immediate, 50_000}},
		{name: "avro", decode: &decodeJob{schemas.FormatAvro, schemas.Batch, 50_000}},
		{name: "json-schema", decode: &decodeJob{schemas.FormatJSONSchema, schemas.Immediate, 50_000}},
		{name: "protobuf", decode: &decodeJob{schemas.FormatProtobuf, schemas.Immediate, 50_000}},
		{name: "files", batch: &batchJob{format: schemas.FormatJSON, events: 30_000, measure: 5000, keys: 10_000, rows: 2000}},
		{name: "files of Avro", batch: &batchJob{format: schemas.FormatAvro, events: 30_000, measure: 5000, keys: 10_000, rows: 2000}},
	} {
		r, err := f.measure(t.Context(), l, repetitions(true))
		if err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		for what, side := range map[string]figures{"sink": r.Sink, "floor": r.Floor} {
			if !(side.Rate > 0) || math.IsInf(side.Rate, 0) || !(side.CPU > 0) || side.RSS < 1<<20 || !(side.Allocs > 0) {
				t.Errorf("%s, %s: got %+v, want a rate, CPU, memory and allocations", l.name, what, side)
			}
		}
	}
}

func TestChildThatFailsEndsTheRun(t *testing.T) {
	for what, wait := range map[string]func(*child) error{
		"a window": func(c *child) error {
			_, err := window(t.Context(), c, commitsNever{}, 1, until(2))
			return err
		},
		"a scenario": func(c *child) error {
			return during(t.Context(), c, func(ctx context.Context) error {
				_, err := commitsNever{}.reach(ctx, 1)
				return err
			})
		},
	} {
		c, err := start(t.Context(), "calls", callsSettings{Service: "http://127.0.0.1:1", Workers: 1, Calls: 10})
		if err != nil {
			t.Fatal(err)
		}
		if err := wait(c); err == nil || !strings.Contains(err.Error(), "exit status 1") {
			t.Errorf("%s: got %v, want the end of the child", what, err)
		}
		_ = c.stop()
	}
}

// commitsNever waits for what does not come.
type commitsNever struct{}

func (commitsNever) reach(ctx context.Context, n int64) (mark, error) {
	return poll(ctx, n, func() (int64, error) { return 0, nil })
}

// leaps are commits of a hundred at a time.
type leaps struct{}

func (leaps) reach(_ context.Context, n int64) (mark, error) {
	return mark{time.Now(), (n + 99) / 100 * 100}, nil
}

func TestWindowBeginsWhereTheFirstCommitIs(t *testing.T) {
	c, err := start(t.Context(), "decode", decodeSettings{schemas.FormatJSON, schemas.Immediate, true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.stop() }()
	if s, err := window(t.Context(), c, leaps{}, 1, after(50)); err != nil || math.IsInf(s.rate, 0) || !(s.rate > 0) {
		t.Errorf("got %+v, %v, want a rate", s, err)
	}
	if s, err := window(t.Context(), c, leaps{}, 1, until(50)); !errors.Is(err, errEmptyWindow) {
		t.Errorf("a window that the first commit is beyond: got %+v, %v, want %v", s, err, errEmptyWindow)
	}
}

func TestEventLeadsToTheFloorsBody(t *testing.T) {
	key := customer(42)
	for variant := range variants {
		var got, want map[string]any
		if err := json.Unmarshal(event(key, variant), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(appendBody(nil, key, variant), &want); err != nil {
			t.Fatal(err)
		}
		if got["op"] != "upsert" || fmt.Sprint(got["key"]) != "map[customerNumber:"+key+"]" {
			t.Fatalf("variant %d: got op %v, key %v", variant, got["op"], got["key"])
		}
		delete(got, "op")
		delete(got, "key")
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			t.Fatalf("variant %d: got %s, want %s", variant, g, w)
		}
	}
}

func TestBodiesOfOneVariantHaveOneLength(t *testing.T) {
	if a, b := len(appendBody(nil, customer(0), 7)), len(appendBody(nil, customer(499_999_999), 7+variants)); a != b {
		t.Errorf("got %d and %d bytes, want as many", a, b)
	}
}

func TestFloorWritesEveryColumn(t *testing.T) {
	var p profile
	value := event(customer(1), 1)
	if err := json.Unmarshal(value, &p); err != nil {
		t.Fatal(err)
	}
	row := p.row(nil)
	_, list, _ := strings.Cut(batchMapping, "columns: [")
	list, _, _ = strings.Cut(list, "]")
	if columns := strings.Split(list, ","); len(row) != len(columns) {
		t.Fatalf("got %d cells for the columns %q", len(row), columns)
	}
	for i, cell := range row {
		if cell == "" || !bytes.Contains(value, []byte(cell)) {
			t.Errorf("cell %d: got %q, which is not in %s", i, cell, value)
		}
	}
}

func TestRecurringEventsHaveTheKeysAskedFor(t *testing.T) {
	next, seen := recurring(50, event), map[string]bool{}
	for range 2000 {
		key, _ := next()
		seen[string(key)] = true
	}
	if len(seen) != 50 {
		t.Errorf("got %d keys, want 50", len(seen))
	}
}

func TestServiceTellsTheMomentOfTheTarget(t *testing.T) {
	s := newService(0)
	server := httptest.NewServer(s.routes())
	defer server.Close()
	answers := make(chan tally, 1)
	go func() {
		got, err := awaitCalls(t.Context(), server.URL, 3)
		if err != nil {
			t.Error(err)
		}
		answers <- got
	}()
	for s.target.Load() != 3 {
		select {
		case <-t.Context().Done():
			t.Fatal("nobody waits")
		case <-time.After(time.Millisecond):
		}
	}
	for i := range 5 {
		if err := post(t.Context(), server.Client(), server.URL+profilesPath(entity, table), []byte("four")); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			if got := <-answers; got.Calls != 3 || got.Bytes != 12 {
				t.Errorf("got %d calls, %d bytes, want 3, 12", got.Calls, got.Bytes)
			}
		}
	}
	if got, err := awaitCalls(t.Context(), server.URL, 4); err != nil || got.Calls != 5 {
		t.Errorf("too late: got %d calls, error %v, want 5 at once", got.Calls, err)
	}
}

func TestBareLoopFailsOnARefusal(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if err := post(t.Context(), server.Client(), server.URL, nil); err == nil {
		t.Error("got no error for a 404")
	}
}

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		given := slices.Clone(c.values)
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", given, got, c.want)
		}
		if !slices.Equal(c.values, given) {
			t.Errorf("%v became %v", given, c.values)
		}
	}
}

// TestRatioIsOfTheRunsSideBySide has a machine that gets slower and slower: the
// ratio stays.
func TestRatioIsOfTheRunsSideBySide(t *testing.T) {
	var pairs []pair
	for _, speed := range []float64{1000, 500, 100} {
		pairs = append(pairs, pair{
			floor: sample{rate: speed, cpu: 1 / speed, rss: 1},
			sink:  sample{rate: speed * 0.9, cpu: 2 / speed, rss: int64(speed)},
		})
	}
	r := newResult(line{}, pairs, counted{})
	if r.Ratio != 0.9 || r.Spread != [2]float64{0.9, 0.9} || r.CPURatio != 2 {
		t.Errorf("got ratio %v, spread %v, CPU %v, want 0.9, 0.9 to 0.9, 2", r.Ratio, r.Spread, r.CPURatio)
	}
	if r.Sink.Rate != 450 || r.Floor.Rate != 500 || r.Sink.RSS != 1000 {
		t.Errorf("got sink %+v, floor %+v, want medians and the highest peak", r.Sink, r.Floor)
	}
}

func TestReportMarksWhatIsMissed(t *testing.T) {
	r := report{Machine: "a machine", Lines: []result{{
		Name: "a line", Unit: "calls", Ratio: 0.9, CPURatio: 1.4, Spread: [2]float64{0.8, 1},
		Sink:  figures{Rate: 900, CPU: 7, RSS: 90e6},
		Floor: figures{Rate: 1000, CPU: 5},
		Goal:  goal{Ratio: 0.85, CPURatio: 1.35, Rate: 901, CPU: 7, RSS: 100e6},
	}}}
	var text bytes.Buffer
	if err := r.write(&text, "text"); err != nil {
		t.Fatal(err)
	}
	const want = "≥ 0.85, ≥ 901/s (missed), CPU ≤ 1.35 (missed), CPU ≤ 7 s, RSS ≤ 100 MB  7.0"
	if !strings.Contains(text.String(), want) {
		t.Errorf("got\n%s\nwant a line with %s", text.String(), want)
	}
	var machineReadable bytes.Buffer
	if err := r.write(&machineReadable, "json"); err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(machineReadable.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Lines) != 1 || back.Lines[0] != r.Lines[0] || back.Machine != r.Machine {
		t.Errorf("got %+v, want %+v", back, r)
	}
}

func TestQuickLinesAreTheSameJobs(t *testing.T) {
	full, quick := lines(false), lines(true)
	for i, l := range full {
		if q := quick[i]; q.name != l.name || q.goal != l.goal {
			t.Errorf("got %s, want %s", q.name, l.name)
		}
		for _, each := range []line{l, quick[i]} {
			if c := each.calling; c != nil && (c.calls%variants != 0 || c.floorCalls%variants != 0) {
				t.Errorf("%s: %d and %d calls: must be multiples of %d, or the bodies cannot be compared", each.name, c.calls, c.floorCalls, variants)
			}
		}
	}
}

func TestCommandLineIsChecked(t *testing.T) {
	for _, args := range [][]string{{"-o", "yaml"}, {"stray"}, {"-nope"}, {"-only", "no such line"}, {"-growth", "-soak"}, {"-compare", "-quick"}, {"-write", "-quick"}, {"-write", "-only", "Avro"}, {"-soak", "-for", "1m"}} {
		if o, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q: got %+v, want an error", args, o)
		}
	}
	for _, args := range [][]string{{"-write"}, {"-write", "-only", "hot keys"}} {
		if _, err := parse(args, io.Discard); err != nil {
			t.Errorf("%q: got %v", args, err)
		}
	}
}
