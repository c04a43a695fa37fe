package deadletter_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
)

var at = time.UnixMilli(1795000000123)

func TestLetterIsTheRecordByteForByte(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*kgo.Record{
		"plain":           {Key: []byte("k"), Value: []byte(`{"op":"upsert"}`)},
		"tombstone":       {Key: []byte("k")},
		"no key":          {Value: []byte("v")},
		"nothing":         {},
		"empty, not nil":  {Key: []byte{}, Value: []byte{}},
		"any bytes":       {Key: []byte{0, 1, 255}, Value: []byte{0, 0, 0, 0, 7, 0xc3, 0x28, '\n'}},
		"headers":         {Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0, 255}}, {Key: "h", Value: []byte("again")}}},
		"empty header":    {Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "empty", Value: []byte{}}, {Key: "", Value: []byte("no key")}}},
		"nil header":      {Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "nil"}}},
		"was dead before": {Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "__connect.errors.topic", Value: []byte("older")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, topic))
			p, _ := newPost(t, c)
			r.Topic, r.Partition, r.Offset, r.Timestamp = "crm.customers", 3, 42, at
			r.Headers = slices.Grow(r.Headers, 20) // others may share the memory behind them
			before := fmt.Sprintf("%#v", r.Headers[:cap(r.Headers)])
			if err := send(p, r, deadletter.Reason{Stage: deadletter.Decoding}).await(t); err != nil {
				t.Fatalf("send: %v", err)
			}
			if after := fmt.Sprintf("%#v", r.Headers[:cap(r.Headers)]); after != before {
				t.Errorf("the record's headers were changed:\n got %s\nwant %s", after, before)
			}
			got := read(t, c, 1)[0]
			if !reflect.DeepEqual(got.Key, r.Key) || !reflect.DeepEqual(got.Value, r.Value) {
				t.Errorf("key and value: got %#v %#v, want %#v %#v", got.Key, got.Value, r.Key, r.Value)
			}
			if !got.Timestamp.Equal(at) {
				t.Errorf("timestamp: got %v, want %v", got.Timestamp, at)
			}
			if len(got.Headers) < len(r.Headers) {
				t.Fatalf("headers: got %d, want at least the record's %d", len(got.Headers), len(r.Headers))
			}
			for i, want := range r.Headers {
				if h := got.Headers[i]; h.Key != want.Key || !reflect.DeepEqual(h.Value, want.Value) {
					t.Errorf("header %d: got %q=%#v, want %q=%#v", i, h.Key, h.Value, want.Key, want.Value)
				}
			}
		})
	}
}

func TestHeadersSayWhereItCameFromAndWhyItIsThere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		letter deadletter.Reason
		want   string
	}{
		"all of them": {
			deadletter.Reason{
				Stage: deadletter.Delivering, Code: "import_row", Message: "emailAddress: not an e-mail address",
				Mapping: "customers", Table: "customers_fr", Lane: "batch", Status: 409, Execution: "4711",
			},
			"__connect.errors.topic=crm.customers\n__connect.errors.partition=0\n__connect.errors.offset=42\n" +
				"__connect.errors.connector.name=feedsink\n__connect.errors.stage=TASK_PUT\n" +
				"__connect.errors.exception.class.name=import_row\n" +
				"__connect.errors.exception.message=emailAddress: not an e-mail address\n" +
				"feedsink.mapping=customers\nfeedsink.table=customers_fr\nfeedsink.lane=batch\n" +
				"feedsink.http.status=409\nfeedsink.execution=4711\n",
		},
		"what does not apply is left out": {
			deadletter.Reason{Stage: deadletter.Decoding, Code: "decode", Message: "offset 3: unexpected end – fin prématurée"},
			"__connect.errors.topic=crm.customers\n__connect.errors.partition=0\n__connect.errors.offset=42\n" +
				"__connect.errors.connector.name=feedsink\n__connect.errors.stage=VALUE_CONVERTER\n" +
				"__connect.errors.exception.class.name=decode\n" +
				"__connect.errors.exception.message=offset 3: unexpected end – fin prématurée\n",
		},
		"routing": {
			deadletter.Reason{Stage: deadletter.Transforming, Code: "no_id", Mapping: "customers", Lane: "immediate"},
			"__connect.errors.topic=crm.customers\n__connect.errors.partition=0\n__connect.errors.offset=42\n" +
				"__connect.errors.connector.name=feedsink\n__connect.errors.stage=TRANSFORMATION\n" +
				"__connect.errors.exception.class.name=no_id\n" +
				"feedsink.mapping=customers\nfeedsink.lane=immediate\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kfake.SeedTopics(1, topic))
			p, _ := newPost(t, c)
			r := &kgo.Record{Topic: "crm.customers", Offset: 42, Value: []byte("v"), Timestamp: at}
			if err := send(p, r, test.letter).await(t); err != nil {
				t.Fatalf("send: %v", err)
			}
			var got bytes.Buffer
			for _, h := range read(t, c, 1)[0].Headers {
				fmt.Fprintf(&got, "%s=%s\n", h.Key, h.Value)
			}
			if got.String() != test.want {
				t.Errorf("headers:\n got %s\nwant %s", got.String(), test.want)
			}
		})
	}
}

func TestPlainMessageLeavesTheServicesWordsOut(t *testing.T) {
	for name, c := range map[string]struct {
		letter deadletter.Reason
		want   string
	}{
		"ours":           {deadletter.Reason{Stage: deadletter.Transforming, Message: "attributes.seq: must be a number: 404 Not Found"}, "attributes.seq: must be a number: 404 Not Found"},
		"a refusal":      {deadletter.Reason{Stage: deadletter.Delivering, Status: 409, Message: "upsert profile customers: 409 Conflict: C000123 and C000124"}, "upsert profile customers: 409 Conflict"},
		"without a body": {deadletter.Reason{Stage: deadletter.Delivering, Status: 404, Message: "update record orders: 404 Not Found"}, "update record orders: 404 Not Found"},
		"a row":          {deadletter.Reason{Stage: deadletter.Delivering, Execution: "7", Message: "a@example.com is no address"}, "its row was in error in execution 7"},
		"a row of a create": {
			deadletter.Reason{Stage: deadletter.Delivering, Execution: "7", Message: deadletter.MayBeInTable + ": a@example.com exists", MayBeInTable: true},
			"it may already be in the table: its row was in error in execution 7",
		},
		"a status without a name": {
			deadletter.Reason{Stage: deadletter.Delivering, Status: 460, Message: `upsert profile customers: 460: {"error":"a@example.com"}`},
			"upsert profile customers: 460",
		},
		"a status that the text does not name": {deadletter.Reason{Stage: deadletter.Delivering, Status: 499, Message: "a@example.com"}, "the service answered 499"},
		"without a status":                     {deadletter.Reason{Stage: deadletter.Delivering, Message: "given up after 3 tries in 1m0s"}, "given up after 3 tries in 1m0s"},
	} {
		if got := c.letter.Plain(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
