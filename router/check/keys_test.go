package check_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
)

func TestKeysThatRecordsHaveInCommonAreRefused(t *testing.T) {
	const (
		shared   = `the key "customerNumber" is the same for every record of a partition, so that all of them would be one row; hint: `
		constant = "fields[0].expr: " + shared + "have it read what tells records apart"
		path     = "fields[0].from: " + shared + "write from, the path of what tells records apart, or expr"
		half     = `the key "customerNumber" is the same for records of several partitions, each of which has every offset, so that they would be one row; hint: write expr: topic + "-" + string(partition) + "-" + string(offset)`
		sameTime = `the key "customerNumber" is the same for records of one time, so that they would be one row; hint: have it read what tells records apart`
		missing  = `fields[0].expr: records without the key "customerNumber" would all be one row; hint: leave out what stands for a key that is missing: a record without a key is a dead letter`
	)
	for _, tc := range []struct {
		field router.Field
		want  string // "": it works
	}{
		{router.Field{From: "topic"}, path},
		{router.Field{From: "partition"}, path},
		{router.Field{From: `["topic"]`}, ""},
		{router.Field{From: "topic.id"}, `fields[0].from: "topic.id" is not a path`},
		{router.Field{From: "offset"}, "fields[0].from: " + half},
		{router.Field{From: `["offset"]`}, ""},
		{router.Field{From: "timestamp"}, "fields[0].from: " + sameTime},
		{router.Field{From: `["timestamp"]`}, ""},
		{router.Field{Expr: `topic + string(partition) + string(timestamp)`}, "fields[0].expr: " + sameTime},
		{router.Field{Expr: `string(offset)`}, "fields[0].expr: " + half},
		{router.Field{Expr: `topic + string(offset) + string(timestamp)`}, "fields[0].expr: " + half},
		{router.Field{Expr: `string(partition) + "-" + string(offset)`}, ""},
		{router.Field{Expr: `string(id) + string(offset)`}, ""},
		{router.Field{Expr: `string(id) + string(timestamp)`}, ""},
		{router.Field{Expr: `kafkaKey + string(timestamp)`}, ""},
		{router.Field{Expr: `"fixed"`}, constant},
		{router.Field{Expr: `7`}, constant},
		{router.Field{Expr: `topic`}, constant},
		{router.Field{Expr: `topic + "-" + string(partition)`}, constant},
		{router.Field{Expr: `true ? "a" : "b"`}, constant},
		{router.Field{Expr: `value.topic`}, ""},
		{router.Field{Expr: `topic + string(id)`}, ""},
		{router.Field{Expr: `id ?? "none"`}, missing},
		{router.Field{Expr: `id ?? other ?? topic`}, missing},
		{router.Field{Expr: `string(id ?? 0)`}, missing},
		{router.Field{Expr: `id == nil ? "none" : id`}, missing},
		{router.Field{Expr: `id != nil ? string(id) : "none"`}, missing},
		{router.Field{Expr: `type == "a" ? id ?? "none" : other`}, missing},
		{router.Field{Expr: `id ?? nil`}, ""},
		{router.Field{Expr: `id == nil ? nil : id`}, ""},
		{router.Field{Expr: `id ?? other`}, ""},
		{router.Field{Expr: `string(id) + "-x"`}, ""},
		{router.Field{Expr: `string(id) + (region ?? "none")`}, ""},
		{router.Field{Expr: `type == "a" ? id : other`}, ""},
		{router.Field{Expr: `type == "settings" ? "all" : id`}, ""}, // somebody wants one row of them
		{router.Field{Expr: `headers["id"]`}, ""},
	} {
		wantProblem(t, tc.field.From+tc.field.Expr, keyed(tc.field), tc.want)
	}
}

func TestOffsetsOfSeveralTopicsAreNoKeys(t *testing.T) {
	of := func(expr string) func(*router.Mapping) {
		return func(m *router.Mapping) {
			keyed(router.Field{Expr: expr})(m)
			m.Topics = []string{"a", "b"}
		}
	}
	wantProblem(t, "no topic", of(`string(partition) + "-" + string(offset)`), `fields[0].expr: the key "customerNumber" is the same for records of several topics`)
	wantProblem(t, "a topic", of(`topic + "-" + string(partition) + "-" + string(offset)`), "")
}

func TestKeysOfWhichEveryRecordIsADeadLetterAreRefused(t *testing.T) {
	typed := func(as string) func(*router.Mapping) {
		return func(m *router.Mapping) { m.Types = []router.Type{{Name: "customerNumber", As: as}} }
	}
	record := func(f router.Field) func(*router.Mapping) {
		return func(m *router.Mapping) {
			f.To = "businessKey"
			*m = orders()
			m.Fields = []router.Field{f}
		}
	}
	calls := func(key string) func(*router.Mapping) {
		return func(m *router.Mapping) {
			m.Key, m.Routes, m.Imports = key, []router.Route{{Lane: "immediate"}}, router.Imports{}
		}
	}
	const (
		rule     = ": a key is text or a whole number; hint: write string, or leave it out"
		elements = "[*] makes a list: a key is text or a whole number; hint: write the element that is meant, such as [0]"
		test     = "comes to true or false: a key is text or a whole number; hint: have it come to what tells records apart"
		noName   = " is no attribute; hint: name the unique-key attribute of the table"
	)
	for _, tc := range []struct {
		name   string
		change func(*router.Mapping)
		want   string // "": it works
	}{
		{"a boolean", keyed(router.Field{From: "id", As: "boolean"}), "fields[0].as: boolean" + rule},
		{"a list", keyed(router.Field{From: "id", As: "list"}), "fields[0].as: list" + rule},
		{"an integer", keyed(router.Field{From: "id", As: "integer"}), ""},
		{"a boolean of a record", record(router.Field{From: "id", As: "boolean"}), "fields[0].as: boolean" + rule},
		{"a list of a record", record(router.Field{From: "id", As: "list"}), "fields[0].as: list is not what a property takes: text or a number"},
		{"a type", typed("boolean"), "types[0].as: boolean" + rule},
		{"a type of lists", typed("list"), "types[0].as: list" + rule},
		{"a type of texts", typed("string"), ""},
		{"all elements", keyed(router.Field{From: "ids[*]"}), "fields[0].from: " + elements},
		{"all elements of the Kafka key", keyed(router.Field{From: "kafkaKey.ids[*].no", As: "string"}), "fields[0].from: " + elements},
		{"one element", keyed(router.Field{From: "ids[0]"}), ""},
		{"such a name", keyed(router.Field{From: `["ids[*]"]`}), ""},
		{"all elements as the service's id", func(m *router.Mapping) { m.ProfileID = "ids[*]" }, "profileId: " + elements},
		{"a comparison", keyed(router.Field{Expr: `id > 5`}), "fields[0].expr: " + test},
		{"a test that is turned round", keyed(router.Field{Expr: `not (id contains "a")`}), "fields[0].expr: " + test},
		{"a number below 0", keyed(router.Field{Expr: `-id`}), ""},
		{"a segmentation", calls("S_no"), `key: "S_no"` + noName},
		{"a subscription", calls("subscriptions#no"), `key: "subscriptions#no"` + noName},
		{"a consent's source", calls("dataCollection.source"), `key: "dataCollection.source"` + noName},
		{"no name", calls("S_"), `key: "S_"` + noName},
		{"an attribute", calls("no"), ""},
	} {
		wantProblem(t, tc.name, tc.change, tc.want)
	}
}

// wantProblem wants the mapping of customers with a change to have one problem, or none.
func wantProblem(t *testing.T, name string, change func(*router.Mapping), want string) {
	t.Helper()
	m := customers()
	change(&m)
	got := problemsOf(m)
	if want == "" && got != "[]" || want != "" && !strings.HasPrefix(got, "[mappings[0]."+want) {
		t.Errorf("%s:\n got %s\nwant %s", name, got, want)
	}
}
