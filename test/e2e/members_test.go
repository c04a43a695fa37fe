package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

// sessionTimeout is after how long the group gives a silent member up.
const sessionTimeout = 6 * time.Second

// team is three members that share five tables, each of a topic of its own and
// loaded by files alone.
type team struct {
	*world
	yaml    string
	members []*teammate
}

// teammate is a `feedsink run` with a spool and a door to the service.
type teammate struct {
	*process
	name     string
	address  string       // of its admin server
	triggers atomic.Int64 // that came through its door
}

var teamTables = []string{"t1", "t2", "t3", "t4", "t5"}

func newTeam(t *testing.T) *team {
	t.Helper()
	m := &team{}
	var yaml strings.Builder
	yaml.WriteString(strings.Replace(head, "sessionTimeout: 10s", "sessionTimeout: "+sessionTimeout.String(), 1) + deadLetters + "mappings:\n")
	m.world = newWorld(t, func(c *sandbox.Config) {
		for i, name := range teamTables {
			c.Tables = append(c.Tables, sandbox.Table{Name: name, Custom: true, Fields: []sandbox.Field{{Name: "seq", Type: sandbox.Number}}})
			c.ETLs = append(c.ETLs, sandbox.ETL{ID: fmt.Sprint(i), Loads: []sandbox.Load{{Table: name, Mode: sandbox.CreateOrUpdate}}})
			fmt.Fprintf(&yaml, `  - {name: %[1]s, topics: ["${PREFIX}%[1]s"], customTable: %[1]s, key: businessKey, routes: [{lane: batch}],
     imports: {upsert: {etl: "%[2]d", mode: CREATE_OR_UPDATE}, columns: [businessKey, seq], roll: {rows: 500, bytes: 1MiB, age: 3s}, slotsPerDay: 1000}}
`, name, i)
		}
	})
	m.yaml = yaml.String()
	m.createTopics(2, teamTables...)
	for i := range 3 {
		m.join(fmt.Sprint("m", i+1))
	}
	m.until("the tables are shared fairly", func() bool {
		var counts []int
		for _, mate := range m.members {
			counts = append(counts, len(m.owned(mate)))
		}
		slices.Sort(counts)
		return slices.Equal(counts, []int{1, 2, 2})
	})
	return m
}

// join starts one member more.
func (m *team) join(name string) {
	m.t.Helper()
	mate := &teammate{name: name}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/trigger-execution") {
			mate.triggers.Add(1)
		}
		m.service.ServeHTTP(w, r)
	}))
	m.t.Cleanup(door.Close)
	mate.process = m.runAs(m.yaml, map[string]string{"DIR": shared(m.t, m.t.TempDir()), "SERVICE": door.URL}, "--log-format", "json")
	m.until(name+" says where its admin server is", func() bool {
		for _, e := range mate.said() {
			if e.Admin != "" {
				mate.address = e.Admin
			}
		}
		return mate.address != ""
	})
	m.members = append(m.members, mate)
}

// owned are the tables that the member says it has.
func (m *team) owned(mate *teammate) []string {
	return m.tablesOf(mate, func(i observe.MappingImports) bool { return i.Owned })
}

// filling are the tables that it has a file open for.
func (m *team) filling(mate *teammate) []string {
	return m.tablesOf(mate, func(i observe.MappingImports) bool { return i.Open != nil })
}

func (m *team) tablesOf(mate *teammate, which func(observe.MappingImports) bool) (tables []string) {
	m.t.Helper()
	var list []observe.MappingImports
	if err := json.Unmarshal([]byte(get(m.t, mate.address, "/imports")), &list); err != nil {
		m.t.Fatal(err)
	}
	for _, i := range list {
		if which(i) {
			tables = append(tables, i.Table)
		}
	}
	return tables
}

// produceAll sends one record to each table.
func (m *team) produceAll(seq int) {
	m.t.Helper()
	for _, table := range teamTables {
		m.produce(event(table, "k", fmt.Sprintf(`{"op":"upsert","businessKey":"k%d","properties":{"seq":%[1]d}}`, seq)))
	}
}

// allLoaded waits until every table has so many rows and nothing is left.
func (m *team) allLoaded(rows int) {
	m.t.Helper()
	for _, table := range teamTables {
		m.until(table+" is complete", func() bool { return m.service.Len(table) == rows })
		m.until(table+" is confirmed", func() bool { return m.lag("batch", table) == 0 })
	}
}

// line is a line of a member's log.
type line struct {
	Time  time.Time `json:"time"`
	Msg   string    `json:"msg"`
	Topic string    `json:"topic"`
	File  string    `json:"file"`
	Admin string    `json:"admin"`
}

func (mate *teammate) said() (lines []line) {
	for text := range strings.Lines(mate.out.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// tenure is a time in which a member had a topic.
type tenure struct {
	member     string
	from, till time.Time
}

// tenures reads from a member's log when it had which topic. What it had at the
// end of the log it had until then.
func (mate *teammate) tenures(end time.Time) map[string][]tenure {
	list := map[string][]tenure{}
	for _, l := range mate.said() {
		switch {
		case l.Msg == "partitions assigned":
			list[l.Topic] = append(list[l.Topic], tenure{mate.name, l.Time, end})
		case l.Msg == "partitions given back" || strings.HasPrefix(l.Msg, "partitions lost"):
			if last := len(list[l.Topic]) - 1; last >= 0 && l.Time.Before(end) {
				list[l.Topic][last].till = l.Time
			}
		}
	}
	return list
}

// neverTwoOwners checks the tenures of all members. gone is when the group gave
// a member up that could not say so.
func (m *team) neverTwoOwners(gone map[*teammate]time.Time) {
	m.t.Helper()
	all := map[string][]tenure{}
	for _, mate := range m.members {
		end, is := gone[mate]
		if !is {
			end = time.Now()
		}
		for topic, list := range mate.tenures(end) {
			all[topic] = append(all[topic], list...)
		}
	}
	if len(all) != len(teamTables) {
		m.t.Errorf("topics that were assigned: got %d, want %d", len(all), len(teamTables))
	}
	for topic, list := range all {
		slices.SortFunc(list, func(a, b tenure) int { return a.from.Compare(b.from) })
		for i := 1; i < len(list); i++ {
			if list[i].from.Before(list[i-1].till) {
				m.t.Errorf("%s: %s had it from %v on, and %s until %v", topic, list[i].member, list[i].from, list[i-1].member, list[i-1].till)
			}
		}
	}
}
