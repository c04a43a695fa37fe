package connector

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/schemas"
)

// TestClocksThatDifferDoNotTellWhoseARecordIs: the service's time of its creation is by another clock than
// the Kafka record's.
func TestClocksThatDifferDoNotTellWhoseARecordIs(t *testing.T) {
	now := time.Now()
	placed := order(schemas.Create, "PLACED")
	for ahead, want := range map[time.Duration]map[time.Duration]writes.Verdict{ // by how much before now it was created
		30 * time.Minute: {30 * time.Minute: writes.Perhaps, time.Hour: writes.Perhaps},
		-2 * time.Minute: {time.Hour: writes.Perhaps},
		2 * time.Second:  {30 * time.Minute: writes.Ours, time.Hour: writes.Theirs},
	} {
		for before, want := range want {
			created := fmt.Sprintf("%q", now.Add(-before).Format(time.RFC3339Nano))
			have := &service.Record{Ahead: ahead, Properties: []service.Property{{Name: "creationMoment", Value: json.RawMessage(created)}}}
			cr := writes.Create{Written: now.Add(-45 * time.Minute), Assigned: now}
			if got := cr.Of(placed, have); got != want {
				t.Errorf("a clock %v ahead, created %v ago: got %d, want %d", ahead, before, got, want)
			}
		}
	}
}

// TestWhoseRecordACreateHasMet: a create that is confirmed by mistake is lost
// silently; where it cannot be told it is a dead letter that says so.
func TestWhoseRecordACreateHasMet(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 500e6, time.UTC)
	after := func(d time.Duration) time.Time { return noon.Add(d) }
	backlog := writes.Create{Written: noon, Assigned: after(time.Hour), Tried: after(2 * time.Hour)}
	unsure := backlog
	unsure.Unsure = true
	for _, c := range []struct {
		what    string
		of      writes.Create
		status  string
		created time.Time
		want    writes.Verdict
	}{
		{"equal, made by any write", backlog, "PLACED", after(-time.Hour), writes.Ours},
		{"there before the create was written", backlog, "PAID", after(-time.Millisecond), writes.Theirs},
		{"in the second of its writing, of a service that counts seconds", backlog, "PAID", noon.Truncate(time.Second), writes.Ours},
		{"made under a former owner, changed since", backlog, "PAID", after(time.Minute), writes.Ours},
		{"made by another record of the backlog", backlog, "PAID", after(90 * time.Minute), writes.Theirs},
		{"made as the partition was assigned", backlog, "PAID", after(time.Hour + time.Second), writes.Perhaps},
		{"made by our try, whose answer was lost", unsure, "PAID", after(2*time.Hour + time.Second), writes.Ours},
		{"made before our try by another record", unsure, "PAID", after(90 * time.Minute), writes.Perhaps},
		{"the service does not say when", backlog, "PAID", time.Time{}, writes.Perhaps},
		{"the Kafka record has no timestamp", writes.Create{Written: time.UnixMilli(-1), Assigned: after(time.Hour)}, "PAID", after(-time.Hour), writes.Theirs},
		{"the Kafka record's timestamp is 0", writes.Create{Written: time.UnixMilli(0), Assigned: after(time.Hour)}, "PAID", after(-time.Hour), writes.Theirs},
		{"nothing is known of the create", writes.Create{Unsure: true}, "PAID", after(time.Minute), writes.Theirs},
	} {
		t.Run(c.what, func(t *testing.T) {
			have := &service.Record{Properties: []service.Property{
				{Name: "status", Value: json.RawMessage(fmt.Sprintf("%q", c.status))}, {Name: "total", Value: json.RawMessage("12.5")},
			}}
			if !c.created.IsZero() {
				have.Properties = append(have.Properties, service.Property{Name: "creationMoment", Value: json.RawMessage(fmt.Sprintf("%q", c.created.Format(time.RFC3339Nano)))})
			}
			if got := c.of.Of(order(schemas.Create, "PLACED"), have); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
