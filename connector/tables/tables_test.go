package tables

import (
	"reflect"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/router"
)

// oneName are mappings of a profile table and a custom table of the same name, and
// of one more table.
func oneName(t *testing.T, topics ...string) []*router.Compiled {
	t.Helper()
	upsert := func(etl string) router.Imports {
		return router.Imports{Upsert: &router.Import{ETL: etl, Mode: "CREATE_OR_UPDATE"}, Roll: router.Roll{Rows: 10}, SlotsPerDay: 12}
	}
	files := []router.Route{{Lane: "batch"}}
	people := router.Mapping{Name: "people", Topics: []string{topics[0]}, Format: "json", ProfileTable: "contacts", Key: "customerNumber", Routes: files, Imports: upsert("101")}
	people.Imports.Columns = []router.Column{{Name: "customerNumber"}}
	visits := router.Mapping{Name: "visits", Topics: []string{topics[1]}, Format: "json", CustomTable: "contacts", Key: "businessKey", Routes: files, Imports: upsert("102")}
	visits.Imports.Columns = []router.Column{{Name: "businessKey"}}
	orders := router.Mapping{Name: "orders", Topics: []string{"shop"}, Format: "json", CustomTable: "orders", Key: "businessKey", Routes: files, Imports: upsert("103")}
	orders.Imports.Columns = []router.Column{{Name: "businessKey"}}
	r, problems := router.Compile([]router.Mapping{people, visits, orders})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return r.Mappings()
}

func TestTablesOfOneNameHaveTheirOwnLedgerEntriesAndLabels(t *testing.T) {
	ms := oneName(t, "crm", "crm")
	if got, want := LedgerTables(ms), []string{"profile/contacts", "custom/contacts", "custom/orders"}; !slices.Equal(got, want) {
		t.Errorf("tables on the ledger: got %q, want %q", got, want)
	}
	if got, want := ByTopic(ms), map[string][]string{"crm": {"profile/contacts", "custom/contacts"}, "shop": {"custom/orders"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("tables by topic: got %q, want %q", got, want)
	}
	var labels []string
	for _, m := range ms {
		labels = append(labels, m.Label)
	}
	if want := []string{"profile/contacts", "custom/contacts", "orders"}; !slices.Equal(labels, want) {
		t.Errorf("labels: got %q, want %q", labels, want)
	}
}

func TestLedgerOfAFormerVersionIsUnderstood(t *testing.T) {
	sameTopic, twoTopics := oneName(t, "crm", "crm"), oneName(t, "crm", "web")
	visits := sameTopic[1].FileFingerprint()
	for name, c := range map[string]struct {
		mappings []*router.Compiled
		topic    string
		im       ack.Import
		imports  []string
		slots    []string
	}{
		"the one table of the name": {sameTopic, "shop", ack.Import{Table: "orders"}, []string{"custom/orders"}, []string{"custom/orders"}},
		"on another topic now":      {sameTopic, "former", ack.Import{Table: "orders"}, []string{"custom/orders"}, []string{"custom/orders"}},
		"written by this version":   {sameTopic, "crm", ack.Import{Table: "custom/contacts"}, []string{"custom/contacts"}, []string{"custom/contacts"}},
		"of a topic of one of two":  {twoTopics, "web", ack.Import{Table: "contacts"}, []string{"custom/contacts"}, []string{"custom/contacts"}},
		"of the fingerprint of one": {
			sameTopic, "crm",
			ack.Import{Table: "contacts", Fingerprint: visits},
			[]string{"custom/contacts"},
			[]string{"profile/contacts", "custom/contacts"},
		},
		"of a file of one": {
			sameTopic, "crm",
			ack.Import{Table: "contacts", File: "people-20261122T120000Z-abcdef.upsert.csv.gz"},
			[]string{"profile/contacts"},
			[]string{"profile/contacts", "custom/contacts"},
		},
		"of nobody knows which": {
			sameTopic, "crm",
			ack.Import{Table: "contacts", File: "people-and-others.csv.gz"},
			[]string{"profile/contacts", "custom/contacts"},
			[]string{"profile/contacts", "custom/contacts"},
		},
		"of no mapping any more": {sameTopic, "crm", ack.Import{Table: "gone"}, []string{"gone"}, []string{"gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.im.UpTo, c.im.Execution = 12, "4711"
			l := ack.Ledger{Done: ack.Ranges{{From: 1, To: 2}}, Imports: []ack.Import{c.im}, Slots: []ack.Slots{{Table: c.im.Table, Used: []int64{7, 8}}}}
			Upgrade(c.mappings, c.topic, &l)
			var imports, slots []string
			for _, im := range l.Imports {
				imports = append(imports, im.Table)
				if im.Table = c.im.Table; im != c.im {
					t.Errorf("import: got %+v, want %+v", im, c.im)
				}
			}
			for _, sl := range l.Slots {
				slots = append(slots, sl.Table)
				if !slices.Equal(sl.Used, []int64{7, 8}) {
					t.Errorf("slots of %s: got %v", sl.Table, sl.Used)
				}
			}
			if !slices.Equal(imports, c.imports) || !slices.Equal(slots, c.slots) {
				t.Errorf("tables: got imports of %q and slots of %q, want %q and %q", imports, slots, c.imports, c.slots)
			}
			if len(l.Slots) == 2 && &l.Slots[0].Used[0] == &l.Slots[1].Used[0] {
				t.Error("two tables share one record of slots")
			}
		})
	}
}
