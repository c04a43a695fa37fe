package journeys

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// shows are what can be shown, each as lines that are the same in every run.
var shows = map[string]func(*story, *datadriven.TestData) []string{
	"rows":         (*story).showRows,        // of every table
	"calls":        (*story).showCalls,       // by key, in order; applied: without those that were not
	"imports":      (*story).showImports,     // in order
	"dead-letters": (*story).showDeadLetters, // by origin
	"offsets":      (*story).showOffsets,
	"halted":       func(s *story, _ *datadriven.TestData) []string { return s.halted() },
	"unready":      (*story).showUnready,
	"spool":        (*story).showSpool,
	"counters":     (*story).showCounters, // of a metric: name
}

func (s *story) show(d *datadriven.TestData) string {
	lines, known := shows[s.subject(d)]
	if !known {
		s.fatalf("show: one of %v", slices.Sorted(maps.Keys(shows)))
	}
	shown := lines(s, d)
	if len(shown) == 0 {
		return "none\n"
	}
	return strings.Join(shown, "\n") + "\n"
}

func (s *story) showRows(*datadriven.TestData) (lines []string) {
	for _, table := range tables {
		rows := s.service.Rows(table.Name)
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			row := rows[key]
			line := table.Name + " " + key
			for _, column := range slices.Sorted(maps.Keys(row.Values)) {
				if column != "customerNumber" && column != "businessKey" {
					line += " " + column + "=" + row.Text(column)
				}
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func (s *story) showCalls(d *datadriven.TestData) (lines []string) {
	_, appliedOnly := d.Arg("applied")
	byKey := map[string][]sandbox.Call{}
	for _, c := range s.service.Calls() {
		if c.Op <= 7 && (c.Applied || !appliedOnly) {
			name := strings.TrimSpace(c.Table + " " + cmp.Or(c.Key, c.ID)) // what is refused for its token is not read
			byKey[name] = append(byKey[name], c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byKey)) {
		lines = append(lines, name)
		for _, c := range byKey[name] {
			lines = append(lines, "  "+describe(c))
		}
	}
	return lines
}

// operations are the document's numbers in words.
var operations = map[int]string{1: "upsert", 2: "patch", 3: "delete", 4: "upsert", 5: "patch", 6: "read", 7: "delete"}

func describe(c sandbox.Call) string {
	line := operations[c.Op]
	if seq, ok := c.Values["seq"]; ok {
		line += fmt.Sprintf(" seq=%v", seq)
	}
	switch {
	case !c.TokenOK:
		line += ": refused for its token"
	case c.Applied:
		line += ": applied"
	default:
		line += ": not applied"
	}
	if c.Status == 0 {
		return line + ", no answer"
	}
	return line + ", answer " + strconv.Itoa(c.Status)
}

func (s *story) showImports(*datadriven.TestData) (lines []string) {
	for _, e := range s.service.Executions() {
		line := masked(e.File) + ": " + string(e.Status)
		if e.Error != "" {
			line += ": " + e.Error
		}
		for _, l := range e.Loads {
			line += fmt.Sprintf(", %s %s", l.Mode, l.Table)
			for _, n := range []struct {
				rows int64
				what string
			}{{l.Results.Read, "read"}, {l.Results.InError, "in error"}, {l.Results.Inserted, "inserted"}, {l.Results.Updated, "updated"}, {l.Results.Deleted, "deleted"}} {
				if n.rows > 0 {
					line += fmt.Sprintf(", %d %s", n.rows, n.what)
				}
			}
			slices.Sort(l.Keys)
			line += ": " + strings.Join(l.Keys, " ")
		}
		lines = append(lines, line)
	}
	return lines
}

func (s *story) showDeadLetters(*datadriven.TestData) (lines []string) {
	for _, l := range s.deadLetterRecords() {
		h := map[string]string{}
		for _, header := range l.Headers {
			h[header.Key] = string(header.Value)
		}
		get := func(name string) string {
			return cmp.Or(h["__connect.errors."+name], h["feedsink."+name], "-")
		}
		from := get("topic") + "[" + get("partition") + "]@" + get("offset")
		bytes := "byte for byte"
		if !same(l, s.sent[from]) {
			bytes = "CHANGED"
		}
		lines = append(lines, fmt.Sprintf("%s key=%s, %s\n  %s %s, mapping %s, table %s, lane %s, status %s\n  %s", from, l.Key, bytes,
			get("stage"), get("exception.class.name"), get("mapping"), get("table"), get("lane"), get("http.status"), get("exception.message")))
	}
	slices.Sort(lines)
	return lines
}

// same compares a dead letter with its record; its own headers come last.
func same(letter, sent *kgo.Record) bool {
	return sent != nil && bytes.Equal(letter.Key, sent.Key) && bytes.Equal(letter.Value, sent.Value) &&
		(letter.Value == nil) == (sent.Value == nil) && letter.Timestamp.Equal(sent.Timestamp) &&
		len(letter.Headers) > 0 && bytes.Equal(letter.Headers[0].Value, sent.Headers[0].Value)
}

func (s *story) deadLetterRecords() (letters []*kgo.Record) {
	ends, err := s.admin.ListEndOffsets(s.t.Context(), "dlq")
	s.check(err)
	end, _ := ends.Lookup("dlq", 0)
	if end.Offset == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics("dlq"))
	s.check(err)
	defer client.Close()
	for int64(len(letters)) < end.Offset {
		fetches := client.PollFetches(s.t.Context())
		s.check(fetches.Err())
		letters = append(letters, fetches.Records()...)
	}
	return letters
}

func (s *story) showOffsets(*datadriven.TestData) (lines []string) {
	for topic, lanes := range lanesOf {
		for _, lane := range lanes {
			committed, end, err := s.offsets(lane, topic)
			s.check(err)
			lines = append(lines, fmt.Sprintf("%s lane, %s: %d of %d committed", lane, topic, committed, end))
		}
	}
	slices.Sort(lines)
	return lines
}

func (s *story) showUnready(d *datadriven.TestData) []string {
	return s.sinks[name(d)].Unready()
}

func (s *story) showSpool(*datadriven.TestData) (lines []string) {
	s.check(filepath.WalkDir(s.spool, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // a file that has just been confirmed
		}
		if path == filepath.Join(s.spool, commandsDir) {
			return fs.SkipDir
		}
		if err == nil && !entry.IsDir() && !strings.HasSuffix(path, "lock") {
			lines = append(lines, masked(filepath.Base(path)))
		}
		return err
	}))
	slices.Sort(lines)
	return lines
}

func (s *story) showCounters(d *datadriven.TestData) (lines []string) {
	for _, sink := range s.sinks {
		for line := range strings.Lines(s.get(sink, "/metrics")) {
			if strings.HasPrefix(line, text(d, "name", "")+"{") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// moment and chance in a file's name
var chance = regexp.MustCompile(`\d{8}T\d{6}Z-[a-z2-7]{6}`)

func masked(text string) string { return chance.ReplaceAllString(text, "<when>") }
