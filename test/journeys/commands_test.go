package journeys

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

const patience = time.Minute

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

func (s *story) commit(d *datadriven.TestData) string {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: text(d, "topic", "orders"), At: int64(s.number(d, "offset", 0)), LeaderEpoch: -1})
	s.check(s.admin.CommitAllOffsets(s.t.Context(), "sink-"+text(d, "lane", "immediate"), offsets))
	return ""
}

func (s *story) release(d *datadriven.TestData) string {
	client, err := admin.NewClient("http://"+s.sinks[name(d)].AdminAddress(), admin.Credentials{})
	s.check(err)
	var released observe.Released
	s.check(client.Release(s.t.Context(), text(d, "mapping", "customers"), &released))
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
