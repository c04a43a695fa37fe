package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/feedsink/feedsink/schemas"
)

// TestMain lets the test binary play the roles, as the bench itself does.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == roleArgument {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// newBench is a bench that ends with the test.
func newBench(t *testing.T) *bench {
	b := open(t.TempDir(), "")
	t.Cleanup(func() {
		if err := b.close(0); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestBothSidesOfTinyLinesAreMeasured(t *testing.T) {
	b := newBench(t)
	for _, l := range []line{
		{name: "calls", job: &callJob{time.Millisecond, 8, 1000, "calls", 8, 1000}},
		{name: "loop", job: &callJob{time.Millisecond, 8, 1000, "loop", 8, 1000}},
		{name: "json", job: &decodeJob{schemas.FormatJSON, schemas.Immediate, 50_000}},
		{name: "avro", job: &decodeJob{schemas.FormatAvro, schemas.Batch, 50_000}},
		{name: "json-schema", job: &decodeJob{schemas.FormatJSONSchema, schemas.Immediate, 50_000}},
		{name: "protobuf", job: &decodeJob{schemas.FormatProtobuf, schemas.Immediate, 50_000}},
		{name: "files", job: &batchJob{all: 30_000, measure: 5000, keys: 10_000, rows: 2000}},
		{name: "files of Avro", job: &batchJob{visits: schemas.FormatAvro, all: 30_000, measure: 5000, keys: 10_000, rows: 2000}},
	} {
		var r result
		if err := guard(func() { r = b.measure(t.Context(), l, repetitions(true)) }); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		for what, side := range map[string]sample{"sink": r.Sink, "floor": r.Floor} {
			if !(side.Rate > 0) || math.IsInf(side.Rate, 0) || !(side.CPU > 0) || side.RSS < 1<<20 || !(side.Allocs > 0) {
				t.Errorf("%s, %s: got %+v, want a rate, CPU, memory and allocations", l.name, what, side)
			}
		}
	}
}

func TestChildThatFailsEndsTheRun(t *testing.T) {
	b := open(t.TempDir(), "")
	never := func(context.Context) int64 { return 0 }
	err := guard(func() { // the child may have ended before it answers for the first time
		c := b.start(t.Context(), "calls", settings{Service: "http://127.0.0.1:1", Workers: 1, Calls: 10})
		c.window(t.Context(), 1, 2, never)
	})
	if closed := b.close(0); err == nil || closed == nil || !strings.Contains(closed.Error(), "exit status 1") {
		t.Errorf("got %v, and %v in the end, want the end of the child", err, closed)
	}
}

func TestWindowInWhichNothingIsDoneIsAnError(t *testing.T) {
	c := newBench(t).start(t.Context(), "decode", settings{Format: schemas.FormatJSON, Floor: true})
	leaps := func(context.Context) int64 { return 100 } // a commit of a hundred
	if err := guard(func() { c.window(t.Context(), 1, 50, leaps) }); !errors.Is(err, errEmptyWindow) {
		t.Errorf("got %v, want %v", err, errEmptyWindow)
	}
}

func TestEventLeadsToTheFloorsBody(t *testing.T) {
	events, bodies := canonical(), bodies()
	for variant := range variants {
		key, event := filled(events, 42, variant)
		_, body := filled(bodies, 42, variant)
		sent, err := loopBody(event)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal(sent, &got), json.Unmarshal(body, &want)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) || len(sent) != len(body) {
			t.Fatalf("variant %d: got %s, want %s", variant, sent, body)
		}
		if begin := `{"op":"upsert","key":{"customerNumber":"` + string(key) + `"},`; !bytes.HasPrefix(event, []byte(begin)) {
			t.Fatalf("variant %d: got %s, want it to begin with %s", variant, event, begin)
		}
	}
}

func TestBodiesOfOneVariantHaveOneLength(t *testing.T) {
	_, a := filled(bodies(), 0, 7)
	_, b := filled(bodies(), 499_999_999, 7+variants)
	if len(a) != len(b) {
		t.Errorf("got %d and %d bytes, want as many", len(a), len(b))
	}
}

func TestFloorWritesEveryColumn(t *testing.T) {
	var p profile
	_, value := filled(canonical(), 1, 1)
	if err := json.Unmarshal(value, &p); err != nil {
		t.Fatal(err)
	}
	row := p.row(nil)
	_, list, _ := strings.Cut(configuration, "columns: [customerNumber, emailAddress")
	list, _, _ = strings.Cut(list, "]")
	if columns := strings.Split(list, ","); len(row) != len(columns)+1 {
		t.Fatalf("got %d cells for the columns %q", len(row), columns)
	}
	for i, cell := range row {
		if cell == "" || !bytes.Contains(value, []byte(cell)) {
			t.Errorf("cell %d: got %q, which is not in %s", i, cell, value)
		}
	}
}

func TestRecurringEventsHaveTheKeysAskedFor(t *testing.T) {
	next, seen := recurring(2000, 50, canonical()).next, map[string]bool{}
	for i := range 2000 {
		key, _ := next(i)
		seen[string(key)] = true
	}
	if len(seen) != 50 {
		t.Errorf("got %d keys, want 50", len(seen))
	}
}

func TestBareLoopFailsOnARefusal(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if err := newCaller(settings{Service: server.URL})(t.Context(), nil); err == nil {
		t.Error("got no error for a 404")
	}
}

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		given := slices.Clone(c.values)
		if got := spread(c.values).median(); got != c.want {
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
	var pairs []pair[sample]
	for _, speed := range []float64{1000, 500, 100} {
		pairs = append(pairs, pair[sample]{
			floor: sample{Rate: speed, CPU: 1 / speed, RSS: 1},
			sink:  sample{Rate: speed * 0.9, CPU: 2 / speed, RSS: speed},
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
	p := pair[sample]{floor: sample{Rate: 1000, CPU: 5}, sink: sample{Rate: 900, CPU: 7, RSS: 90e6}}
	l := line{name: "a line", unit: "calls", goal: goal{ratio: 0.85, rate: 901, cpuRatio: 1.35, cpu: 7, rss: 100e6}}
	r := report{Machine: "a machine", Parts: []part{{Name: "lines", Lines: []result{newResult(l, []pair[sample]{p}, counted{})}}}}
	var text bytes.Buffer
	if err := r.write(&text, "text"); err != nil {
		t.Fatal(err)
	}
	const want = "≥ 0.85, ≥ 901/s (missed), CPU ≤ 1.35 (missed), CPU ≤ 7 s, RSS ≤ 100 MB | 7.0"
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
	if !reflect.DeepEqual(back, r) {
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
			if c, ok := each.job.(*callJob); ok && (c.calls%variants != 0 || c.floorCalls%variants != 0) {
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
