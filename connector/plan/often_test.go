package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// planOf is a plan for mappings of orders by calls, each with its topic.
func planOf(t *testing.T, limits Limits, mappings ...router.Mapping) (*Plan, *router.Router) {
	t.Helper()
	for i := range mappings {
		m := &mappings[i]
		m.CustomTable, m.Key, m.Topics = m.Name, "businessKey", []string{m.Name}
		m.Fields = []router.Field{{From: "id", To: "businessKey"}, {From: "status", To: "status", As: "string"}}
		if m.Routes == nil {
			m.Routes = []router.Route{{Lane: immediate}}
		}
	}
	r, problems := router.Compile(mappings)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p, err := New(limits, r.Mappings(), func(*router.Compiled) (*spool.Preview, error) {
		rows, err := spool.NewRows(spool.Key{Section: schemas.Properties, Name: "businessKey"}, []spool.Column{
			{Header: "businessKey", Section: schemas.Properties, Name: "businessKey"}, {Header: "status", Section: schemas.Properties, Name: "status"},
		}, spool.CSV{})
		if err != nil {
			return nil, err
		}
		return spool.NewPreview(rows), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

// order adds an order that came at a time.
func order(t *testing.T, p *Plan, r *router.Router, topic string, partition int32, key string, status int64, at time.Time) {
	t.Helper()
	value, err := schemas.NewJSON().Decode(fmt.Appendf(nil, `{"id":%q,"status":"%d"}`, key, status))
	if err != nil {
		t.Fatal(err)
	}
	record := router.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: value, Timestamp: at}
	p.Add(&record, r.Route(nil, &record))
}

func reported(t *testing.T, p *Plan) []Mapping {
	t.Helper()
	report, err := p.Report(nil, func(*schemas.Write) (Request, error) { return Request{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return report.Mappings
}

// A call waits for a second, not for as long as writes of its key come.
func TestAKeyThatIsWrittenTwiceASecondIsACallASecond(t *testing.T) {
	for _, unchanged := range []string{"", "skip"} {
		p, r := planOf(t, Limits{Unchanged: 1 << 20}, router.Mapping{Name: "orders", Unchanged: unchanged, UnchangedFor: time.Hour})
		for i := range int64(120) {
			order(t, p, r, "orders", 0, "a", i, time.Unix(midnight*60, 0).Add(time.Duration(i)*500*time.Millisecond))
		}
		rows := int64(0)
		for _, minute := range p.mappings[0].arrived.minutes {
			rows += minute.callable + minute.fileOnly
		}
		c := reported(t, p)[0].Calls
		if c.Calls != 60 || c.PeakMinute != 60 || rows != 60 {
			t.Errorf("unchanged: %q: got %d calls, %d in a minute, %d rows, want 60 of each", unchanged, c.Calls, c.PeakMinute, rows)
		}
	}
}
