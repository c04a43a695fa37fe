//go:build debezium

package debezium_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// column is a column of a source table, what the mapping makes of it, and the
// same said by PostgreSQL itself.
type column struct {
	from, to, as string
	sql          string // the cell as text
	number       bool   // compared by value: 2.50 is 2.5
	format       string // how the source counts dates and times, where no schema says it
}

// itemColumns are the columns of items in a mode. Without a schema the mapping
// has to say how dates and times are counted.
func itemColumns(mode string) []column {
	all := []column{
		{from: "flag", to: "flag", as: "boolean", sql: "flag::text"},
		{from: "big", to: "big", sql: "big::text", number: true},
		{from: "exact", to: "exact", as: "number", sql: "exact::text", number: true},
		{from: "word", to: "word", sql: "word"},
		{from: "moment_tz", to: "momentTz", as: "timestamp", sql: `to_char(moment_tz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`},
		{from: "uid", to: "uid", sql: "uid::text"},
		{from: "docb", to: "docb", sql: "docb::text"},
		{from: "feeling", to: "feeling", sql: "feeling::text"},
		{from: "note", to: "note", sql: "note"},
	}
	if modes[mode]["converter.schemas.enable"] == "false" {
		return append(all,
			column{from: "day", to: "day", as: "date", sql: "day::text", format: "epochDays"},
			column{from: "moment", to: "moment", as: "timestamp", sql: `to_char(moment, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`, format: "epochMillis"})
	}
	return append(all,
		column{from: "day", to: "day", as: "date", sql: "day::text"},
		column{from: "moment", to: "moment", as: "timestamp", sql: `to_char(moment, 'YYYY-MM-DD"T"HH24:MI:SS')`})
}

var peopleColumns = []column{
	{from: "number", to: "number", sql: "number"},
	{from: "mail", to: "mail", as: "email", sql: "mail"},
	{from: "tags", to: "tags", as: "list", sql: "to_json(tags)::text"},
	{from: "born", to: "born", as: "date", sql: "born::text"},
	{from: "vip", to: "S_vip", sql: "vip::text"},
	{from: "newsletter", to: "subscriptions#newsletter", sql: "newsletter::text"},
	{from: "note", to: "note", sql: "note"},
}

// peopleMode is the mode whose people are read: one table is enough for files.
const peopleMode = "schema"

// Real SQL on a real PostgreSQL goes through a real Debezium engine, in each of
// its modes at once, and Kafka: what the service's tables hold at the end is
// what a SELECT says, cell by cell.
func TestWhatSQLChangesArrivesCellByCell(t *testing.T) {
	p := startPostgres(t)
	p.script("arrival.sql")
	brokers := broker(t)
	topics := createTopics(t, brokers)

	var files []string
	for mode := range modes {
		files = append(files, p.properties(mode, "feedsink.brokers="+brokers, "skipped.operations=none"))
	}
	wait := engines(t, files...)
	service, url := startService(t)
	stop := startSink(t, brokers, url) // reads the snapshot while it is written
	p.watched(len(modes))
	p.script("arrival-changes.sql")
	wait()
	settled(p, brokers, topics)
	stop()

	for mode := range modes {
		columns := itemColumns(mode)
		equal(t, "items_"+mode, columns, p.rows("items", "id", columns), service.Rows("items_"+mode))
	}
	equal(t, "people", peopleColumns, p.rows("people", "number", peopleColumns), service.Rows("people"))
	patches := 0
	for _, call := range service.Calls() {
		if call.Op == 5 {
			patches++
		}
	}
	if patches == 0 {
		t.Error("no update left a value out: the test has not seen unchanged values")
	}
	t.Logf("%d calls, %d of them patches; %d imports", len(service.Calls()), patches, len(service.Executions()))
}

// rows selects a source table's cells as texts, by key; null is nil.
func (p *postgres) rows(table, key string, columns []column) map[string]map[string]*string {
	p.t.Helper()
	var cells []string
	for _, c := range columns {
		cells = append(cells, fmt.Sprintf("'%s', %s", c.to, c.sql))
	}
	rows := map[string]map[string]*string{}
	script := fmt.Sprintf("SET TIME ZONE 'UTC'; SELECT json_build_object('key', %s::text, 'cells', json_build_object(%s)) FROM %s", key, strings.Join(cells, ", "), table)
	for _, line := range p.sql(script) {
		var row struct {
			Key   string
			Cells map[string]*string
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		rows[row.Key] = row.Cells
	}
	return rows
}

// equal compares the service's table with the source's.
func equal(t *testing.T, table string, columns []column, want map[string]map[string]*string, got map[string]sandbox.Row) {
	t.Helper()
	if len(want) < 20 {
		t.Errorf("%s: the source has %d rows, which proves little", table, len(want))
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("%s %s: is there, but not in the source", table, key)
		}
	}
	cells := 0
	for key, row := range want {
		found, ok := got[key]
		if !ok {
			t.Errorf("%s %s: missing", table, key)
			continue
		}
		for _, c := range columns {
			cells++
			if text, is := cell(found, c), source(row[c.to], c); text != is {
				t.Errorf("%s %s: %s: got %s, want %s", table, key, c.to, text, is)
			}
		}
	}
	t.Logf("%s: %d rows, %d cells", table, len(want), cells)
}

func cell(row sandbox.Row, c column) string {
	if row.Values[c.to] == nil {
		return "null"
	}
	return comparison(row.Text(c.to), c)
}

func source(text *string, c column) string {
	if text == nil {
		return "null"
	}
	return comparison(*text, c)
}

func comparison(text string, c column) string {
	if n, ok := new(big.Rat).SetString(text); ok && c.number {
		return n.RatString()
	}
	return fmt.Sprintf("%q", text)
}

const partitions = 3

// createTopics makes the topics that engines write and the sink reads.
func createTopics(t *testing.T, brokers string) (topics []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for mode := range modes {
		topics = append(topics, mode+".public.items", mode+".public.people")
	}
	made, err := kadm.NewClient(client).CreateTopics(t.Context(), partitions, 1, nil, append(topics, "dlq")...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(topics, func(topic string) bool {
		return strings.HasSuffix(topic, ".people") && topic != peopleMode+".public.people"
	})
}

func startService(t *testing.T) (service *sandbox.Sandbox, url string) {
	t.Helper()
	tables := []sandbox.Table{{
		Name: "people", Keys: []string{"number"}, SlotsPerDay: 1000,
		Fields: []sandbox.Field{
			{Name: "number"}, {Name: "mail", Format: sandbox.Email}, {Name: "tags", Multi: true}, {Name: "born", Type: sandbox.Date}, {Name: "note"},
		},
		Segments: []sandbox.Segment{{Name: "vip"}}, Subscriptions: []string{"newsletter"},
	}}
	for mode := range modes {
		table := sandbox.Table{Name: "items_" + mode, Custom: true}
		for _, c := range itemColumns(mode) {
			kind := map[string]sandbox.Type{"date": sandbox.Date, "timestamp": sandbox.Timestamp, "boolean": sandbox.Boolean}[c.as]
			if c.number {
				kind = sandbox.Number
			}
			table.Fields = append(table.Fields, sandbox.Field{Name: c.to, Type: kind})
		}
		tables = append(tables, table)
	}
	etl := func(id string, mode sandbox.Mode) sandbox.ETL {
		load := sandbox.Load{Table: "people", Mode: mode, GenerateErrorFiles: true}
		load.IgnoreEmptyValues = mode == sandbox.UpdateOnly // a patch says nothing of what it leaves out
		return sandbox.ETL{ID: id, Loads: []sandbox.Load{load}}
	}
	service, err := sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{"key"}, Tables: tables, KeepCalls: 100_000, Dir: t.TempDir(),
		ETLs: []sandbox.ETL{etl("1", sandbox.CreateOrUpdate), etl("2", sandbox.UpdateOnly), etl("3", sandbox.DeleteRows)},
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := service.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	return service, server.URL()
}

// configuration is feedsink's file for all the modes.
func configuration(brokers, url, dir string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
kafka: {brokers: ["%s"], group: sink}
service: {baseURL: "%s", authURL: "%s", entity: acme, apiKey: key}
dlq: {topic: dlq}
spool: {dir: "%s"}
admin: {listen: "127.0.0.1:0"}
mappings:
`, brokers, url, url, dir)
	fields := func(columns []column) {
		for _, c := range columns {
			fmt.Fprintf(&text, "      - {from: %s, to: \"%s\", as: \"%s\", format: \"%s\"}\n", c.from, c.to, c.as, c.format)
		}
	}
	for _, mode := range slices.Sorted(maps.Keys(modes)) {
		fmt.Fprintf(&text, `
  - name: items-%s
    topics: [%s.public.items]
    envelope: debezium
    customTable: items_%s
    key: businessKey
    routes: [{lane: immediate}]
    fields:
      - {from: id, to: businessKey}
`, mode, mode, mode)
		fields(itemColumns(mode))
	}
	fmt.Fprintf(&text, `
  - name: people
    topics: [%s.public.people]
    envelope: debezium
    profileTable: people
    key: number
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "1", mode: CREATE_OR_UPDATE}
      patch: {etl: "2", mode: UPDATE_ONLY, ignoresEmpty: true}
      delete: {etl: "3", mode: DELETE}
      columns: [number, mail, tags, born, S_vip, "subscriptions#newsletter", note]
      roll: {rows: 100, age: 1s}
      slotsPerDay: 1000
    fields:
`, peopleMode)
	fields(peopleColumns)
	return text.String()
}

func startSink(t *testing.T, brokers, url string) (stop func()) {
	t.Helper()
	cfg, err := config.Parse("feedsink.yaml", []byte(configuration(brokers, url, t.TempDir())), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	sink, err := connector.New(cfg, connector.Options{Log: log, Version: "test", CommitEvery: 50 * time.Millisecond, FirstPoll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sink.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the sink ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// settled waits until each lane has committed all that it reads, and finds no
// dead letter.
func settled(p *postgres, brokers string, topics []string) {
	t := p.t
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(t.Context(), append(slices.Clone(topics), "dlq")...)
	if err != nil {
		t.Fatal(err)
	}
	p.until("both lanes are at the end of the log", func() bool {
		done := true
		for _, lane := range []string{"immediate", "batch"} {
			committed, err := admin.FetchOffsets(t.Context(), "sink-"+lane)
			if err != nil {
				return false
			}
			ends.Each(func(end kadm.ListedOffset) {
				mine := strings.HasSuffix(end.Topic, ".items") && lane == "immediate" || strings.HasSuffix(end.Topic, ".people") && lane == "batch"
				if o, _ := committed.Lookup(end.Topic, end.Partition); mine && o.At < end.Offset {
					done = false
				}
			})
		}
		return done
	})
	letters, err := admin.ListEndOffsets(t.Context(), "dlq")
	if err != nil {
		t.Fatal(err)
	}
	letters.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			t.Errorf("dead letters: %d in partition %d, want none", end.Offset, end.Partition)
		}
	})
}
