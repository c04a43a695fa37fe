package journeys

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/feedsink/feedsink/connector/observe"
)

// waits are what can be waited for.
var waits = map[string]func(*story, *datadriven.TestData) bool{
	"rows": func(s *story, d *datadriven.TestData) bool { // table, n
		return s.service.Len(text(d, "table", "")) >= s.number(d, "n", 1)
	},
	"calls": func(s *story, d *datadriven.TestData) bool { // op, n: received, be they answered or not
		return s.service.CallCount(s.number(d, "op", 1)) >= int64(s.number(d, "n", 1))
	},
	"tried": func(s *story, d *datadriven.TestData) bool { // key, n: calls for it, whatever became of them
		tries := 0
		for _, c := range s.service.Calls() {
			if c.Key == text(d, "key", "") {
				tries++
			}
		}
		return tries >= s.number(d, "n", 1)
	},
	"breaker": func(s *story, d *datadriven.TestData) bool { // state, of the sink
		for _, l := range s.status(s.sinks[name(d)]).Lanes {
			if l.Calls != nil && l.Calls.Breaker == text(d, "state", "open") {
				return true
			}
		}
		return false
	},
	"imports": func(s *story, d *datadriven.TestData) bool { // n
		return len(s.service.Executions()) >= s.number(d, "n", 1)
	},
	"step": func(s *story, d *datadriven.TestData) bool { // is: where the customers' import stands
		for _, m := range s.status(s.sinks[name(d)]).Mappings {
			if m.Batch != nil && m.Batch.Import != nil && string(m.Batch.Import.Step) == strings.ReplaceAll(text(d, "is", ""), "-", " ") {
				return true
			}
		}
		return false
	},
	"taken":    func(s *story, _ *datadriven.TestData) bool { return s.taken() },                              // the sinks have read every record
	"halted":   func(s *story, d *datadriven.TestData) bool { return len(s.halted()) >= s.number(d, "n", 1) }, // n: reasons
	"unhalted": func(s *story, _ *datadriven.TestData) bool { return len(s.halted()) == 0 },
	"unready": func(s *story, d *datadriven.TestData) bool { // name
		return len(s.sinks[name(d)].Unready()) > 0
	},
	"ready": func(s *story, d *datadriven.TestData) bool { // name
		return len(s.sinks[name(d)].Unready()) == 0
	},
	"assigned": func(s *story, d *datadriven.TestData) bool { // lane, and for each sink NAME=PARTITIONS
		for _, arg := range d.CmdArgs[1:] {
			if arg.Key != "lane" && s.partitionsOf(arg.Key, text(d, "lane", "")) != s.number(d, arg.Key, 0) {
				return false
			}
		}
		return true
	},
	"logged": func(s *story, d *datadriven.TestData) bool { // said: with _ for blanks
		return strings.Contains(s.logs.String(), strings.ReplaceAll(text(d, "said", ""), "_", " "))
	},
	"spool": func(s *story, d *datadriven.TestData) bool { // n: files, or fewer
		return len(s.showSpool(d)) <= s.number(d, "n", 0)
	},
	"counters": func(s *story, d *datadriven.TestData) bool { // name, n: their sum
		sum := 0
		for _, line := range s.showCounters(d) {
			value, err := strconv.Atoi(line[strings.LastIndex(line, " ")+1:])
			s.check(err)
			sum += value
		}
		return sum >= s.number(d, "n", 1)
	},
	"committed": func(s *story, d *datadriven.TestData) bool { // lane, topic, n
		committed, _, err := s.offsets(text(d, "lane", ""), text(d, "topic", ""))
		s.check(err)
		return committed >= int64(s.number(d, "n", 1))
	},
}

func (s *story) wait(d *datadriven.TestData) string {
	holds, known := waits[s.subject(d)]
	if !known {
		s.fatalf("wait: one of %v", slices.Sorted(maps.Keys(waits)))
	}
	s.until(d.String(), func() bool { return holds(s, d) })
	return ""
}

// until waits for a condition, looking again at short intervals.
func (s *story) until(what string, holds func() bool) {
	s.step.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			s.fatalf("waited %v in vain: %s", patience, what)
		case <-look.C:
		}
	}
}

// status is what a sink says at /status.
func (s *story) status(sink *running) observe.Status {
	st, ok := sink.Status().(observe.Status)
	if !ok {
		s.fatalf("status is a %T", sink.Status())
	}
	return st
}

// taken reports whether the sinks together stand at the end of every log.
func (s *story) taken() bool {
	position := map[string]int64{}
	for _, sink := range s.sinks {
		for _, lane := range s.status(sink).Lanes {
			for _, p := range lane.Partitions {
				position[lane.Lane+" "+p.Topic] += p.Position
			}
		}
	}
	for topic, lanes := range lanesOf {
		for _, lane := range lanes {
			_, end, err := s.offsets(lane, topic)
			s.check(err)
			if position[lane+" "+topic] < end {
				return false
			}
		}
	}
	return true
}

func (s *story) partitionsOf(sink, lane string) (n int) {
	if s.sinks[sink] == nil {
		s.fatalf("no sink %s runs", sink)
	}
	for _, l := range s.status(s.sinks[sink]).Lanes {
		if l.Lane == lane && l.Joined {
			n = len(l.Partitions)
		}
	}
	return n
}

// halted are the mappings that wait for a person, and why.
func (s *story) halted() (lines []string) {
	for _, sink := range s.sinks {
		for _, m := range s.status(sink).Mappings {
			for _, reason := range m.Halted {
				lines = append(lines, fmt.Sprintf("%s: %s", m.Name, masked(reason)))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
