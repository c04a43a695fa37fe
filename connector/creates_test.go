package connector

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// TestWhoseRecordACreateHasMet: a create that is confirmed by mistake is lost
// silently; where it cannot be told it is a dead letter that says so.
func TestWhoseRecordACreateHasMet(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 500e6, time.UTC)
	after := func(d time.Duration) time.Time { return noon.Add(d) }
	backlog := creating{written: noon, assigned: after(time.Hour), tried: after(2 * time.Hour)}
	unsure := backlog
	unsure.unsure = true
	for _, c := range []struct {
		what    string
		of      creating
		status  string
		created time.Time
		want    verdict
	}{
		{"equal, made by any write", backlog, "PLACED", after(-time.Hour), ours},
		{"there before the create was written", backlog, "PAID", after(-time.Millisecond), theirs},
		{"in the second of its writing, of a service that counts seconds", backlog, "PAID", noon.Truncate(time.Second), ours},
		{"made under a former owner, changed since", backlog, "PAID", after(time.Minute), ours},
		{"made by another record of the backlog", backlog, "PAID", after(90 * time.Minute), theirs},
		{"made as the partition was assigned", backlog, "PAID", after(time.Hour + time.Second), perhaps},
		{"made by our try, whose answer was lost", unsure, "PAID", after(2*time.Hour + time.Second), ours},
		{"made before our try by another record", unsure, "PAID", after(90 * time.Minute), perhaps},
		{"the service does not say when", backlog, "PAID", time.Time{}, perhaps},
		{"nothing is known of the create", creating{unsure: true}, "PAID", after(time.Minute), theirs},
	} {
		t.Run(c.what, func(t *testing.T) {
			have := &service.Record{Properties: []service.Property{
				{Name: "status", Value: json.RawMessage(fmt.Sprintf("%q", c.status))}, {Name: "total", Value: json.RawMessage("12.5")},
			}}
			if !c.created.IsZero() {
				have.Properties = append(have.Properties, service.Property{Name: "creationMoment", Value: json.RawMessage(fmt.Sprintf("%q", c.created.Format(time.RFC3339Nano)))})
			}
			if got := c.of.of(order(schemas.Create, "PLACED"), have); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
