package debezium_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recording is a line of testdata: a record as the engine wrote it.
type recording struct {
	Topic   string            `json:"topic"`
	Headers map[string]string `json:"headers"`
	Key     *string           `json:"key"`
	Value   *string           `json:"value"`
}

func recordings(t testing.TB, file string) (all []recording) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return all
}

func decoded(t testing.TB, text string) schemas.Value {
	t.Helper()
	v, err := schemas.NewJSON().Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What each recorded event says (first line), and what the router makes of it
// (second line, after the arrow).
func TestRecordedEventsBecomeWrites(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		mode := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(mode, func(t *testing.T) {
			r := routes(t, mode)
			var got strings.Builder
			for _, rec := range recordings(t, file) {
				fmt.Fprintf(&got, "%s %s\n    → %s\n", strings.TrimPrefix(rec.Topic, mode+"."), said(t, rec), routed(t, r, rec))
			}
			golden(t, strings.TrimSuffix(file, ".jsonl")+".golden", got.String())
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d: (-update writes it anew)\n got %s\nwant %s", file, i+1,
				strings.Join(gotLines[min(i, len(gotLines)):min(i+1, len(gotLines))], ""),
				strings.Join(wantLines[min(i, len(wantLines)):min(i+1, len(wantLines))], ""))
		}
	}
}

// said is the change that an event tells, without where and when it came from.
func said(t *testing.T, rec recording) string {
	t.Helper()
	if rec.Value == nil {
		key, err := schemas.FromConnect(decoded(t, *rec.Key))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("tombstone of %s", key.AppendJSON(nil))
	}
	ch, err := schemas.NewDebezium("").Change(decoded(t, *rec.Value))
	switch {
	case err != nil:
		return "error: " + err.Error()
	case ch.Op == 0:
		return "no row"
	}
	row := schemas.ObjectValue(slices.DeleteFunc(slices.Clone(ch.Row.Items()), func(f schemas.Field) bool { return f.Name == "__source" }))
	text := fmt.Sprintf("%v %s", ch.Op, row.AppendJSON(nil))
	if len(ch.Unavailable) > 0 {
		text += fmt.Sprintf(" without %s", strings.Join(ch.Unavailable, ", "))
	}
	for _, column := range ch.Unreadable {
		text += fmt.Sprintf("; %v", column.Err)
	}
	return shorter(text)
}

// routes are one mapping for each of the tables.
func routes(t *testing.T, mode string) *router.Router {
	t.Helper()
	var mappings []router.Mapping
	for table, fields := range map[string][]router.Field{
		"kinds": {
			{From: "id", To: "businessKey"},
			{From: "exact", To: "exact", As: "number"},
			{From: "day", To: "day"},
			{From: "moment", To: "moment"},
			{From: "moment_tz", To: "moment_tz", As: "timestamp"},
			{From: "flag", To: "flag"},
			{From: "word", To: "word"},
			{From: "spot.x", To: "x"},
			{From: "uid", To: "uid"},
		},
		"large":      {{From: "id", To: "businessKey"}, {From: "counter", To: "counter"}, {From: "text_", To: "text"}},
		"full_large": {{From: "id", To: "businessKey"}, {From: "counter", To: "counter"}, {From: "text_", To: "text", As: "string"}},
		"orders":     {{Expr: `shop + "-" + string(number)`, To: "businessKey"}, {From: "shop", To: "shop"}, {From: "status", To: "status"}, {From: "total", To: "total"}},
	} {
		mappings = append(mappings, router.Mapping{
			Name: table, Topics: []string{mode + ".public." + table}, CustomTable: table, Key: "businessKey",
			Envelope: "debezium", Fields: fields,
			Routes: []router.Route{{When: `op == "delete"`, Lane: "immediate"}, {Lane: "immediate"}},
		})
	}
	mappings[0].Topics = append(mappings[0].Topics, mode+".message")
	r, problems := check.Compile(mappings)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return r
}

func routed(t *testing.T, r *router.Router, rec recording) string {
	t.Helper()
	in := &router.Record{Topic: rec.Topic, Tombstone: rec.Value == nil}
	if rec.Key != nil {
		in.Key = []byte(*rec.Key)
	}
	for key, value := range rec.Headers {
		in.Headers = append(in.Headers, router.Header{Key: key, Value: []byte(value)})
	}
	if rec.Value != nil {
		in.Value = decoded(t, *rec.Value)
	}
	out := r.Route(nil, in)
	switch {
	case len(out) == 0:
		return "nothing"
	case out[0].Err != nil:
		return "rejected: " + out[0].Err.Error()
	}
	w := out[0].Write
	text := fmt.Sprintf("%v %s %s", w.Op, w.Table.Name, w.Key)
	for _, c := range w.Cells {
		text += fmt.Sprintf(" %s=%s", c.Name, c.Value.AppendJSON(nil))
	}
	return shorter(text)
}

var repeated = regexp.MustCompile(`x{20,}|y{20,}|z{20,}|(urq6){9,}[A-Za-z=]*|(ab){20,}|(,"word \d+"){9,}|(,\d+(\.0)?){9,}|(,"2026-01-[^"]+"){9,}|(,"[0-9a-f-]{36}"){9,}|(,"\d+"){9,}`)

// shorter leaves out the middle of what is large only to be large.
func shorter(text string) string { return repeated.ReplaceAllString(text, "…") }
