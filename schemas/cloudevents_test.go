package schemas

import (
	"errors"
	"strings"
	"testing"
)

func TestTheContentModeIsToldByTheHeaders(t *testing.T) {
	const binary = "ce_specversion=1.0 ce_id=1 ce_source=/shop ce_type=sold"
	for _, tc := range []struct{ headers, want string }{
		{"", "structured"},
		{"content-type=application/json", "structured"},
		{"content-type=application/cloudevents+json", "structured"},
		{"content-type=Application/CloudEvents+JSON;charset=utf-8", "structured"},
		{"content-type=application/cloudevents", "structured"},
		{"content-type=application/cloudevents+json " + binary, "structured"},
		{binary, "binary"},
		{binary + " content-type=application/avro", "binary"},
		{"content-type=application/cloudevents-batch+json", "cloudevents: is a batch of events"},
		{"content-type=application/cloudevents+avro " + binary, "cloudevents: content-type: must be application/cloudevents+json"},
		{strings.Replace(binary, "1.0", "0.3", 1), "cloudevents: ce_specversion: must be 1.0"},
		{"ce_specversion=1.0 ce_source=/shop ce_type=sold", "cloudevents: ce_id: must be text that is not empty"},
		{"ce_specversion=1.0 ce_id=1 ce_source= ce_type=sold", "cloudevents: ce_source: must be text that is not empty"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/shop", "cloudevents: ce_type: must be text that is not empty"},
	} {
		structured, err := IsStructuredEvent(func(name string) (text string) {
			for h := range strings.FieldsSeq(tc.headers) {
				if key, value, _ := strings.Cut(h, "="); key == name {
					text = value
				}
			}
			return text
		})
		got := "binary"
		if structured {
			got = "structured"
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: got %s, want %s", tc.headers, got, tc.want)
		}
	}
}

func TestAStructuredEventIsTakenApart(t *testing.T) {
	const head = `{"specversion":"1.0","id":"1","source":"/shop","type":"sold"`
	const attributes = `ce_specversion=1.0 ce_id=1 ce_source=/shop ce_type=sold`
	for _, tc := range []struct{ event, want string }{
		{head + `,"data":{"a":1}}`, attributes + ` {"a":1}`},
		{head + `,"data":[1]}`, attributes + ` [1]`},
		{head + `,"data":"text"}`, attributes + ` "text"`},
		{head + `,"data":null}`, attributes + ` absent`},
		{head + `}`, attributes + ` absent`},
		{head + `,"data_base64":"eyJhIjoxfQ=="}`, attributes + ` base64 {"a":1}`},
		{head + `,"data_base64":"eyJhIjoxfQ==","data":null}`, attributes + ` base64 {"a":1}`},
		{head + `,"subject":"C1","time":null,"sequence":12,"urgent":true,"data":{}}`, attributes + ` ce_subject=C1 ce_sequence=12 ce_urgent=true {}`},
		{head + `,"data_base64":"?"}`, `error: cloudevents: data_base64: must be text in base64`},
		{head + `,"data_base64":7}`, `error: cloudevents: data_base64: must be text in base64`},
		{head + `,"data_base64":"eyJhIjoxfQ==","data":{}}`, `error: cloudevents: data_base64: must not stand beside data`},
		{head + `,"more":{"a":1}}`, `error: cloudevents: more: must be text, a number, true or false`},
		{`{"specversion":"1.0","id":"1","source":"","type":"sold"}`, `error: cloudevents: source: must be text that is not empty`},
		{`{"specversion":"1.0","id":1,"source":"/","type":"sold"}`, `error: cloudevents: id: must be text that is not empty`},
		{`{"specversion":"1.0","id":"1","source":"/"}`, `error: cloudevents: type: must be text that is not empty`},
		{`{"specversion":"0.3","id":"1","source":"/","type":"sold"}`, `error: cloudevents: specversion: must be 1.0`},
		{`{"id":"1","type":"sold"}`, `error: cloudevents: ` + ruleNoEvent},
		{`"sold"`, `error: cloudevents: ` + ruleNoEvent},
		{`[` + head + `}]`, `error: cloudevents: ` + ruleBatch},
	} {
		ev, err := StructuredEvent(jsonValue(t, tc.event))
		var got string
		for _, a := range ev.Attributes {
			got += a.Name + "=" + a.Value.Text() + " "
		}
		switch {
		case err != nil:
			if _, ok := errors.AsType[*DecodeError](err); !ok {
				t.Errorf("%s: got a %T, want a DecodeError", tc.event, err)
			}
			got = "error: " + err.Error()
		case ev.Encoded != nil:
			got += "base64 " + string(ev.Encoded)
		case ev.Data.Kind() == Absent:
			got += "absent"
		default:
			got += string(ev.Data.AppendJSON(nil))
		}
		if got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.event, got, tc.want)
		}
	}
}
