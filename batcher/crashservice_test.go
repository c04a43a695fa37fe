package batcher

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// record is one entry of the fake log.
type record struct {
	partition int
	offset    int64
	write     schemas.Write
}

// row is a row of the table: its cells by column.
type row map[string]string

// modelService is the service's table, its executions, and the model of what the table
// has to go through: for each key, its states record by record.
type modelService struct {
	t          *testing.T
	log        []record
	ends       [2]int64
	rows       map[string]row
	executions []*execution
	states     map[string][]row         // the first is that before all records
	reached    map[string]int           // state that the table has shown
	after      map[string]map[int64]int // by key and offset: the state that the record makes
	replays    func(key string) bool    // older records are being written over newer ones; nil: none ever are
}

type execution struct {
	op    schemas.Op
	rows  [][]string
	begun time.Time
	fails bool
	ended bool
}

// takes is how long an execution is in progress.
const takes = time.Second

// newService has the log's keys in the table where a record wants them there. A
// record is written "partition op key cell=value…".
func newService(t *testing.T, log ...string) *modelService {
	s := &modelService{t: t, rows: map[string]row{}, states: map[string][]row{}, reached: map[string]int{}, after: map[string]map[int64]int{}}
	for _, line := range log {
		words := strings.Fields(line)
		op, ok := schemas.ParseOp(words[1])
		if !ok {
			t.Fatalf("record %q: has no operation", line)
		}
		var pairs []string
		for _, cell := range words[3:] {
			name, value, _ := strings.Cut(cell, "=")
			pairs = append(pairs, name, value)
		}
		key := words[2]
		r := record{partition: int(words[0][0] - '0'), write: write(op, key, pairs...)}
		r.offset = s.ends[r.partition]
		s.ends[r.partition]++
		s.log = append(s.log, r)
		if s.states[key] == nil {
			if op != schemas.Upsert {
				s.rows[key] = row{"a": "before"}
			}
			s.states[key], s.after[key] = []row{s.rows[key]}, map[int64]int{}
		}
		s.states[key] = append(s.states[key], apply(s.states[key][len(s.states[key])-1], op, pairs))
		s.after[key][r.offset] = len(s.states[key]) - 1
	}
	return s
}

// apply is what an operation makes of a row, nil being none.
func apply(before row, op schemas.Op, pairs []string) row {
	if op == schemas.Delete || op == schemas.Patch && before == nil {
		return nil
	}
	out := row{}
	if op == schemas.Patch {
		maps.Copy(out, before)
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out[pairs[i]] = pairs[i+1]
		}
	}
	return out
}

// execute takes a file.
func (s *modelService) execute(op schemas.Op, content string, fails map[schemas.Op]int) (id string) {
	s.settle()
	lines, err := csv.NewReader(strings.NewReader(content)).ReadAll()
	if err != nil || len(lines) < 2 {
		s.t.Errorf("file of %v: got %d lines, %v, want some rows", op, len(lines), err)
	}
	before := 0
	for _, e := range s.executions {
		if e.op == op {
			before++
		}
	}
	s.executions = append(s.executions, &execution{op: op, rows: lines, begun: time.Now(), fails: before < fails[op]})
	return fmt.Sprint("e", len(s.executions))
}

func (s *modelService) results(id string) contract.Results {
	s.settle()
	for i, e := range s.executions {
		switch {
		case id != fmt.Sprint("e", i+1):
		case !e.ended:
			return contract.Results{Status: contract.InProgress}
		case e.fails:
			return contract.Results{Status: contract.Failed, Reason: "duplicate headers"}
		default:
			return contract.Results{Status: contract.Finished, Read: int64(len(e.rows)) - 1}
		}
	}
	s.t.Errorf("poll of %q: there is no such execution", id)
	return contract.Results{}
}

// settle ends the executions whose time has come.
func (s *modelService) settle() {
	for _, e := range s.executions {
		if e.ended || time.Since(e.begun) < takes {
			continue
		}
		e.ended = true
		if !e.fails {
			s.load(e)
		}
	}
}

func (s *modelService) load(e *execution) {
	header := e.rows[0]
	for _, cells := range e.rows[1:] {
		key := cells[0]
		if e.op == schemas.Patch && s.rows[key] == nil {
			s.t.Errorf("patch of key %s: there is no such row", key)
		}
		var pairs []string
		for i := 1; i < len(header); i++ {
			pairs = append(pairs, header[i], cells[i])
		}
		s.rows[key] = apply(s.rows[key], e.op, pairs)
		s.advance(key)
	}
}

// advance finds the state that a key is in now; it may skip some and repeat the
// present one, but never go back.
func (s *modelService) advance(key string) {
	states := s.states[key]
	for n := s.reached[key]; n < len(states); n++ {
		if same(states[n], s.rows[key]) {
			s.reached[key] = n
			return
		}
	}
	if s.replays != nil && s.replays(key) {
		return // a patch over a newer state: what follows it will come once more, too
	}
	s.t.Errorf("key %s: got %v after state %d of %v, want that or a later one", key, s.rows[key], s.reached[key], states)
}

func same(a, b row) bool { return (a == nil) == (b == nil) && maps.Equal(a, b) }

// checkConfirmed checks that the table has what is confirmed.
func (s *modelService) checkConfirmed(partition int, watermark int64) {
	s.t.Helper()
	s.settle()
	for _, r := range s.log {
		if r.partition == partition && r.offset < watermark && s.reached[r.write.Key] < s.after[r.write.Key][r.offset] {
			s.t.Errorf("watermark %d of partition %d: key %s is in state %d, want at least %d, that of the record at %d",
				watermark, partition, r.write.Key, s.reached[r.write.Key], s.after[r.write.Key][r.offset], r.offset)
		}
	}
}

// checkFinal compares the table with the last states.
func (s *modelService) checkFinal() {
	s.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(s.states)) {
		if want := s.states[key][len(s.states[key])-1]; !same(s.rows[key], want) {
			s.t.Errorf("key %s in the end: got %v, want %v", key, s.rows[key], want)
		}
	}
}

// story is what follows the first crash, up to the confirmation of the first
// generation.
type story struct {
	begun, over bool
	lines       []string
	imports     int
	slots       int
}

func (s *story) crashed() { s.begun = true }

// waited tells of time that passed for the sake of a former owner's request.
func (s *story) waited(d time.Duration) {
	if d >= grace {
		s.say("waits %v", d.Round(time.Second))
	}
}

func (s *story) say(format string, args ...any) {
	if s.begun && !s.over {
		s.lines = append(s.lines, fmt.Sprintf(format, args...))
	}
}

// found tells what a new owner reads in the ledgers.
func (s *story) found(committed [2]commit) {
	switch at := committed[0]; {
	case s.over && len(s.lines) > 0:
	case at.entry == nil && s.begun:
		s.lines = append(s.lines, "finds nothing")
	case at.entry == nil:
	case at.rebuild:
		s.say("finds %d/%d to be built", at.entry.Part, at.entry.Parts)
	case at.entry.Execution == "":
		s.say("finds %s intended%s", fileOf(*at.entry), try(*at.entry))
	default:
		s.say("finds %s running%s", fileOf(*at.entry), try(*at.entry))
	}
}

func (s *story) confirmed(imports, slots int) {
	if s.over {
		return
	}
	s.say("confirms")
	s.over, s.imports, s.slots = true, imports, slots
}

// String joins the lines, sends in a row as one.
func (s *story) String() string {
	var out strings.Builder
	for i, line := range s.lines {
		switch sent, is := strings.CutPrefix(line, "sends "); {
		case i == 0:
			out.WriteString(line)
		case is && strings.HasPrefix(s.lines[i-1], "sends "):
			out.WriteString(", " + sent)
		default:
			out.WriteString("; " + line)
		}
	}
	return out.String()
}
