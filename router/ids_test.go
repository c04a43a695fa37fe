package router_test

import (
	"testing"

	"github.com/feedsink/feedsink/router"
)

// Where a profile's patch and delete go: by call with the service's id, which
// the event carries or profileId leads to; else as a row where an import loads
// it, whatever the route says; else nowhere.
func TestPatchAndDeleteNeedAnIDOrAnImport(t *testing.T) {
	patch, remove := &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}, &router.Import{ETL: "102", Mode: "DELETE"}
	const noID = `reject no_id: profileId: a call needs it for `
	for _, tc := range []struct {
		name      string
		profileID string
		imports   router.Imports
		event     string
		want      string
	}{
		{"patch, id of the event", "", router.Imports{}, `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"}}`, `immediate: patch customers C1 (p1)`},
		{"delete, id of the event", "", router.Imports{}, `{"op":"delete","profileId":"p1","key":{"customerNumber":"C1"}}`, `immediate: delete customers C1 (p1)`},
		{"the call is asked for, though an import could", "", router.Imports{Patch: patch}, `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"}}`, `immediate: patch customers C1 (p1)`},
		{"id by path", "attributes.sid", router.Imports{}, `{"op":"patch","key":{"customerNumber":"C1"},"attributes":{"sid":9}}`, `immediate: patch customers C1 (9) a.sid=9`},
		{"the event's id before the path's", "attributes.sid", router.Imports{}, `{"op":"delete","profileId":"p1","key":{"customerNumber":"C1"},"attributes":{"sid":9}}`, `immediate: delete customers C1 (p1)`},
		{"id by header", "headers.sid", router.Imports{}, `{"op":"delete","key":{"customerNumber":"C1"}}`, `immediate: delete customers C1 (h1)`},
		{"patch by import", "", router.Imports{Patch: patch}, `{"op":"patch","key":{"customerNumber":"C1"},"attributes":{"age":3}}`, `batch: patch customers C1 a.age=3`},
		{"delete by import", "", router.Imports{Delete: remove}, `{"op":"delete","key":{"customerNumber":"C1"}}`, `batch: delete customers C1`},
		{"a null id is none", "attributes.sid", router.Imports{Delete: remove}, `{"op":"delete","key":{"customerNumber":"C1"},"attributes":{"sid":null}}`, `batch: delete customers C1`},
		{"an import of another op does not help", "", router.Imports{Delete: remove}, `{"op":"patch","key":{"customerNumber":"C1"}}`, `immediate: ` + noID + `patch, and imports.patch is not configured`},
		{"patch without either", "", router.Imports{}, `{"op":"patch","key":{"customerNumber":"C1"}}`, `immediate: ` + noID + `patch, and imports.patch is not configured`},
		{"delete without either", "attributes.sid", router.Imports{}, `{"op":"delete","key":{"customerNumber":"C1"}}`, `immediate: ` + noID + `delete, and imports.delete is not configured`},
		{"an id that is none", "attributes.sid", router.Imports{}, `{"op":"delete","key":{"customerNumber":"C1"},"attributes":{"sid":true}}`, `immediate: reject value: attributes.sid: must be text or a whole number`},
		{"an upsert needs none", "", router.Imports{}, `{"key":{"customerNumber":"C1"}}`, `immediate: upsert customers C1 a.customerNumber="C1"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := customers()
			m.ProfileID = tc.profileID
			m.Routes = []router.Route{{Lane: "immediate"}}
			m.Imports.Upsert, m.Imports.Patch, m.Imports.Delete = nil, tc.imports.Patch, tc.imports.Delete
			m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age"}}
			rec := &router.Record{
				Topic: "crm.customers", Value: value(t, tc.event),
				Headers: []router.Header{{Key: "sid", Value: []byte("h1")}},
			}
			if got := story(routeOne(t, compile(t, m), rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// A tombstone has no value to lead to: its id can only be the record's.
func TestTombstonesFindTheirIDInTheRecord(t *testing.T) {
	m := customers()
	m.ProfileID, m.KafkaKey = "kafkaKey.sid", "json"
	m.Routes, m.Imports = []router.Route{{Lane: "immediate"}}, router.Imports{}
	rec := &router.Record{Topic: "crm.customers", Key: []byte(`{"customerNumber":"C1","sid":"p1"}`), Tombstone: true}
	if got, want := story(routeOne(t, compile(t, m), rec)), `immediate: delete customers C1 (p1)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
