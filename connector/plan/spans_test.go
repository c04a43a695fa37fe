package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
)

// The last 1,000 records of a busy partition are those of a quarter of an hour, of a quiet one
// those of twelve weeks.
func TestADayIsTheSumOfWhatPartitionsBringInTheirTime(t *testing.T) {
	end := time.Unix(midnight*60, 0)
	for name, c := range map[string]struct {
		cut                  bool
		busy                 int64
		every                time.Duration
		least, most, inLanes int64
	}{
		"more are left out": {true, 1000, time.Second, 80_000, 90_000, 1001},
		"all are read":      {false, 1000, time.Second, 24, 25, 2000},
		"one is read":       {true, 1, time.Second, 13, 14, 1001},
		"all at one moment": {true, 1000, 0, 24, 25, 2000},
		"within seconds":    {true, 1000, 5 * time.Millisecond, 1_400_000, 1_500_000, 0},
	} {
		for _, lane := range []string{immediate, batch} {
			if lane == batch && c.inLanes != 1001 {
				continue // to play files of weeks takes long, and shows nothing else
			}
			m := router.Mapping{Name: "orders", Routes: []router.Route{{Lane: lane}}}
			if lane == batch {
				m.Imports = router.Imports{
					Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, Columns: []router.Column{{Name: "businessKey"}, {Name: "status"}},
					Roll: router.Roll{Age: 2 * time.Hour}, SlotsPerDay: 12, Timezone: "UTC",
				}
			}
			p, r := planOf(t, Limits{}, m)
			if c.cut {
				p.Cut("orders", 0)
				p.Cut("orders", 1)
			}
			for i := range c.busy {
				order(t, p, r, "orders", 0, fmt.Sprint("busy", i), i, end.Add(-time.Duration(i)*c.every))
			}
			for i := range int64(1000) {
				order(t, p, r, "orders", 1, fmt.Sprint("quiet", i), i, end.Add(-time.Duration(i)*2*time.Hour))
			}
			got := reported(t, p)[0]
			var aDay int64
			if lane == immediate {
				aDay = got.Calls.PerDay
			} else {
				aDay = got.Files.Day.Rows
			}
			if aDay < c.least || aDay > c.most {
				t.Errorf("%s, %s: got %d a day, want %d to %d", name, lane, aDay, c.least, c.most)
			}
			played := int64(0)
			if got.Lanes != nil {
				played = got.Lanes.choice(immediate).Calls
				if text := (&Report{Mappings: []Mapping{got}}).Text(""); strings.Contains(text, "records since 2026-11-19T23:43:21Z, of all partitions, took one:") != (played == 1001 && c.busy > 1) {
					t.Errorf("%s, %s: got\n%s\nwant it to say since when, if not all is played", name, lane, text)
				}
			}
			if played != c.inLanes {
				t.Errorf("%s, %s: %d rows are played in the lanes, want %d", name, lane, played, c.inLanes)
			}
		}
	}
}
