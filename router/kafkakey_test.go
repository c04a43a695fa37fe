package router_test

import (
	"errors"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// An Avro key arrives decoded: the router knows no registry.
func TestAvroKeysOfTombstonesNameTheirRow(t *testing.T) {
	canonical, mapped := orders(), mappedOrders()
	canonical.KafkaKey, mapped.KafkaKey = "avro", "avro"
	mapped.Fields[0].From = "id"
	object := func(name, text string) schemas.Value {
		return schemas.ObjectValue([]schemas.Field{{Name: name, Value: schemas.NumberValue(text)}})
	}
	for _, tc := range []struct {
		name string
		m    router.Mapping
		key  schemas.Value
		err  error
		want string
	}{
		{"a string", canonical, schemas.StringValue("k"), nil, `immediate: delete orders k`},
		{"a record", canonical, object("businessKey", "17"), nil, `immediate: delete orders 17`},
		{"named as in the value", mapped, object("id", "5"), nil, `immediate: delete orders 5`},
		{"another record", canonical, object("other", "1"), nil, `immediate: reject decode: kafka key: must be text or a whole number`},
		{"broken", canonical, schemas.Value{}, errors.New("avro: offset 5: ends too early"), `immediate: reject decode: kafka key: avro: offset 5: ends too early`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := &router.Record{Topic: tc.m.Topics[0], Key: []byte{0, 0, 0, 0, 1, 2}, KeyValue: tc.key, KeyErr: tc.err, Tombstone: true}
			if got := story(routeOne(t, compile(t, tc.m), rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestFormatsAreKnownByTopic(t *testing.T) {
	m := orders()
	m.Format, m.KafkaKey = "protobuf", "avro"
	r := compile(t, m)
	topic := m.Topics[0]
	if r.Format(topic) != "protobuf" || r.KeyFormat(topic) != "avro" {
		t.Errorf("got %q and %q, want protobuf and avro", r.Format(topic), r.KeyFormat(topic))
	}
	if r.Format("other") != "" || r.KeyFormat("other") != "" {
		t.Errorf("a topic that nobody reads: got %q and %q", r.Format("other"), r.KeyFormat("other"))
	}
}
