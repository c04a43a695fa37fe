package schemas

import (
	"errors"
	"strings"
	"testing"
)

func TestProfileEventReadsEveryMember(t *testing.T) {
	ev, err := ProfileEvent(decode(t, strings.Replace(profileJSON, `"profileId":null`, `"profileId":"p-1"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if ev.Op != Upsert || ev.ProfileID != "p-1" {
		t.Errorf("op and profile id: got %v %q, want upsert \"p-1\"", ev.Op, ev.ProfileID)
	}
	for _, tc := range []struct {
		name string
		got  Value
		want string
	}{
		{"key", ev.Key, `{"customerNumber":"C000123"}`},
		{"attributes", ev.Attributes, `{"customerNumber":"C000123","emailAddress":"a@example.com","languages":["fr","en"]}`},
		{"subscriptions", ev.Subscriptions, `{"newsletter":true}`},
		{"segments", ev.Segments, `{"vip":true,"tier":"gold"}`},
		{"dataCollection", ev.DataCollection, `{"date":"2026-11-21T10:00:00Z","source":"shop","way":"checkout"}`},
	} {
		if got := string(tc.got.AppendJSON(nil)); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestRecordEventReadsEveryMember(t *testing.T) {
	ev, err := RecordEvent(decode(t, recordJSON))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(ev.Properties.AppendJSON(nil)), `{"orderTotal":12.5,"status":"PAID"}`; got != want {
		t.Errorf("properties: got %s, want %s", got, want)
	}
	if ev.Op != Upsert || ev.BusinessKey != "4c1f0c1e" {
		t.Errorf("op and key: got %v %q, want upsert \"4c1f0c1e\"", ev.Op, ev.BusinessKey)
	}
}

func TestEventsReadEveryOpAndMissingAsUpsert(t *testing.T) {
	for text, want := range map[string]Op{
		`{}`: Upsert, `{"op":null}`: Upsert, `{"op":"upsert"}`: Upsert,
		`{"op":"patch"}`: Patch, `{"op":"create"}`: Create, `{"op":"delete"}`: Delete,
	} {
		profile, err := ProfileEvent(decode(t, text))
		if err != nil || profile.Op != want {
			t.Errorf("profile event %s: got %v (%v), want %v", text, profile.Op, err, want)
		}
		record, err := RecordEvent(decode(t, text))
		if err != nil || record.Op != want {
			t.Errorf("record event %s: got %v (%v), want %v", text, record.Op, err, want)
		}
	}
}

func TestEventsReadNullAsLeftOut(t *testing.T) {
	ev, err := ProfileEvent(decode(t, `{"key":null,"profileId":null,"attributes":null,"subscriptions":null,"segments":null,"dataCollection":null}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]Value{
		"key": ev.Key, "attributes": ev.Attributes, "subscriptions": ev.Subscriptions,
		"segments": ev.Segments, "dataCollection": ev.DataCollection,
	} {
		if v.Kind() != Absent {
			t.Errorf("%s: got kind %d, want Absent", name, v.Kind())
		}
	}
	record, err := RecordEvent(decode(t, `{"businessKey":17,"properties":null}`))
	if err != nil || record.BusinessKey != "17" || record.Properties.Kind() != Absent {
		t.Errorf("record event: got %+v (%v), want key 17 and no properties", record, err)
	}
}

func TestEventsRefuseBadMembersByFieldAndRule(t *testing.T) {
	profile, record := ProfileEvent, RecordEvent
	for _, tc := range []struct {
		read func(Value) (Event, error)
		text string
		want string
	}{
		{profile, `"secret"`, "must be an object"},
		{profile, `null`, "must be an object"},
		{profile, `{"op":"secret"}`, "op: must be upsert, patch, merge, create or delete"},
		{profile, `{"op":1}`, "op: must be upsert, patch, merge, create or delete"},
		{profile, `{"key":"secret"}`, "key: must be an object"},
		{profile, `{"profileId":17}`, "profileId: must be text"},
		{profile, `{"attributes":["secret"]}`, "attributes: must be an object"},
		{profile, `{"subscriptions":true}`, "subscriptions: must be an object"},
		{profile, `{"segments":"secret"}`, "segments: must be an object"},
		{profile, `{"dataCollection":"secret"}`, "dataCollection: must be an object"},
		{profile, `{"attribute":{}}`, "attribute: is not a member of a profile event"},
		{profile, `{"properties":{}}`, "properties: is not a member of a profile event"},
		{record, `[]`, "must be an object"},
		{record, `{"op":"secret"}`, "op: must be upsert, patch, merge, create or delete"},
		{record, `{"businessKey":1.0}`, "businessKey: must be text or a whole number"},
		{record, `{"businessKey":true}`, "businessKey: must be text or a whole number"},
		{record, `{"businessKey":{"a":"secret"}}`, "businessKey: must be text or a whole number"},
		{record, `{"properties":"secret"}`, "properties: must be an object"},
		{record, `{"attributes":{}}`, "attributes: is not a member of a record event"},
	} {
		_, err := tc.read(decode(t, tc.text))
		if _, ok := errors.AsType[*ValueError](err); !ok || err.Error() != tc.want {
			t.Errorf("%s: got %v, want %s", tc.text, err, tc.want)
		}
	}
}

func TestEventErrorsBoundTheNamesOfRecords(t *testing.T) {
	_, err := ProfileEvent(decode(t, `{"`+strings.Repeat("x", 1<<20)+`":1}`))
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("error for a member with a huge name: got %d bytes, want at most 200", len(err.Error()))
	}
}
