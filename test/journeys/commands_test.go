package journeys

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/test/sandbox"
)

const patience = 30 * time.Second

// produce sends the records of its lines in their order.
func (s *story) produce(d *datadriven.TestData) string {
	var records []*kgo.Record
	for line := range strings.Lines(d.Input) {
		if words := strings.Fields(line); len(words) > 0 {
			records = append(records, s.record(words))
		}
	}
	s.check(s.client.ProduceSync(s.t.Context(), records...).FirstErr())
	for _, r := range records {
		s.sent[where(r.Topic, r.Partition, r.Offset)] = r
	}
	return ""
}

// record makes a record of TOPIC key=K … .
func (s *story) record(words []string) *kgo.Record {
	fields := map[string]string{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		fields[name] = value
	}
	take := func(name string) (string, bool) {
		value, given := fields[name]
		delete(fields, name)
		return value, given
	}
	key, _ := take("key")
	r := &kgo.Record{Topic: words[0], Key: []byte(key), Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte{0, 255}}}}
	if _, tombstone := take("tombstone"); tombstone {
		return r
	}
	if raw, given := take("raw"); given {
		r.Value = []byte(raw)
		return r
	}
	event := map[string]any{}
	if op, given := take("op"); given {
		event["op"] = op
	}
	if length, given := take("name-length"); given {
		n, err := strconv.Atoi(length)
		s.check(err)
		fields["name"] = strings.Repeat("é", n)
	}
	values := map[string]any{}
	switch r.Topic {
	case "customers":
		if id, given := take("id"); given {
			event["profileId"] = id
		}
		event["key"] = map[string]any{"customerNumber": key}
		if tier, given := take("tier"); given {
			event["segments"] = map[string]any{"tier": tier}
		}
		event["attributes"] = values
	case "orders":
		event["businessKey"], event["properties"] = key, values
	}
	for name, value := range fields {
		values[name] = value
		if name == "seq" {
			values[name] = json.Number(value)
		}
	}
	var err error
	r.Value, err = json.Marshal(event)
	s.check(err)
	return r
}

func name(d *datadriven.TestData) string { return text(d, "name", "sink") }

func (s *story) run(d *datadriven.TestData) string {
	sink, err := s.start(name(d))
	s.check(err)
	s.until("the sink is ready", func() bool { return len(sink.Unready()) == 0 })
	return ""
}

func (s *story) stop(d *datadriven.TestData) string {
	sink := s.sinks[name(d)]
	if sink == nil {
		s.fatalf("no sink %s runs", name(d))
	}
	if _, begin := d.Arg("begin"); begin {
		sink.tell()
		return ""
	}
	delete(s.sinks, sink.name)
	s.check(sink.stop())
	return ""
}

// settle waits until every lane has committed everything it reads.
func (s *story) settle(*datadriven.TestData) string {
	s.until("both groups have committed everything", func() bool {
		for topic, lanes := range lanesOf {
			for _, lane := range lanes {
				committed, end, err := s.offsets(lane, topic)
				s.check(err)
				if committed < end {
					return false
				}
			}
		}
		return true
	})
	return ""
}

func (s *story) fault(d *datadriven.TestData) string {
	_, apply := d.Arg("apply")
	f := sandbox.Fault{
		Match: sandbox.Match{Op: s.number(d, "op", 0), Key: text(d, "key", "")},
		Count: s.number(d, "count", 0), Apply: apply, Delay: s.duration(d, "delay", 0),
	}
	switch answer := text(d, "answer", ""); answer {
	case "reset":
		f.Answer = sandbox.Reset()
	case "hang":
		f.Answer = sandbox.Hang(0)
	case "as-is":
		f.Answer = sandbox.AsIs()
	default:
		f.Answer = sandbox.Status(s.number(d, "answer", 503))
	}
	s.service.Inject(f)
	return ""
}

func (s *story) mend(*datadriven.TestData) string { s.service.ClearFaults(); return "" }

func (s *story) hold(*datadriven.TestData) string { s.service.Hold(); return "" }

func (s *story) finish(*datadriven.TestData) string { s.service.Release(); return "" }

func (s *story) fail(d *datadriven.TestData) string {
	s.service.FailImports(text(d, "table", "customers"), s.number(d, "n", 1), text(d, "reason", "invalid file"))
	return ""
}

func (s *story) letters(d *datadriven.TestData) string {
	switch s.subject(d) {
	case "hold":
		topics, err := s.admin.ListTopics(s.t.Context(), "dlq")
		s.check(err)
		id, held := topics["dlq"].ID, make(chan struct{})
		s.post = sync.OnceFunc(func() { close(held) })
		s.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
			s.cluster.KeepControl()
			if r.(*kmsg.ProduceRequest).Topics[0].TopicID == id {
				s.cluster.SleepControl(func() { <-held })
			}
			return nil, nil, false
		})
	case "post":
		s.post()
	default:
		s.fatalf("letters: hold or post")
	}
	return ""
}

func (s *story) tokens(d *datadriven.TestData) string {
	switch s.subject(d) {
	case "end":
		s.service.RevokeTokens()
	case "revoke":
		s.service.RevokeKey(apiKey)
	case "allow":
		s.service.AllowKey(apiKey)
	default:
		s.fatalf("tokens: end, revoke or allow")
	}
	return ""
}

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
	"taken":  func(s *story, _ *datadriven.TestData) bool { return s.taken() },                              // the sinks have read every record
	"halted": func(s *story, d *datadriven.TestData) bool { return len(s.halted()) >= s.number(d, "n", 1) }, // n: reasons
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
func (s *story) status(sink *running) connector.Status {
	st, ok := sink.Status().(connector.Status)
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

// get reads a page of a sink's admin server.
func (s *story) get(sink *running, path string) string {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+sink.AdminAddress()+path, nil)
	s.check(err)
	resp, err := http.DefaultClient.Do(req)
	s.check(err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	s.check(err)
	return string(body)
}
