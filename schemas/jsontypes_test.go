package schemas

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/sr"
)

// saleOf is an envelope of Debezium as Connect's converter describes it in JSON Schema.
const saleOf = `{"type":"object","title":"pg.public.sales.Envelope","properties":{
	"before":{"connect.index":0,"oneOf":[{"type":"null"},{"$ref":"#/definitions/Value"}]},
	"after":{"connect.index":1,"oneOf":[{"type":"null"},{"$ref":"#/definitions/Value"}]},
	"source":{"type":"object","title":"io.debezium.connector.postgresql.Source","properties":{"lsn":{"type":"integer","connect.type":"int64"}}},
	"op":{"type":"string"}},
	"definitions":{"Value":{"type":"object","title":"pg.public.sales.Value","properties":{
		"id":{"type":"integer","connect.type":"int32"},
		"day":{"oneOf":[{"type":"null"},{"type":"integer","title":"io.debezium.time.Date","connect.type":"int32","connect.version":1}]},
		"placed":{"type":"integer","title":"io.debezium.time.MicroTimestamp","connect.type":"int64","connect.version":1},
		"seen":{"type":"integer","title":"org.apache.kafka.connect.data.Timestamp","connect.type":"int64","connect.version":1},
		"total":{"type":"number","title":"org.apache.kafka.connect.data.Decimal","connect.type":"bytes","connect.version":1,"connect.parameters":{"scale":"2","connect.decimal.precision":"9"}},
		"exact":{"type":"object","title":"io.debezium.data.VariableScaleDecimal","properties":{"scale":{"type":"integer"},"value":{"type":"string","connect.type":"bytes"}}},
		"days":{"type":"array","items":{"type":"integer","title":"io.debezium.time.Date"}},
		"dayOf":{"type":"object","connect.type":"map","additionalProperties":{"type":"integer","title":"io.debezium.time.Date"}},
		"parts":{"type":"array","items":{"$ref":"#/definitions/Value"}}}}}}`

func TestConnectsNamesInJSONSchemasAreHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		r := d.open(t, func(c *RegistryConfig) { c.Validate = true })
		defer r.Close()
		id := d.register(t, "sales", saleOf, sr.TypeJSON)
		for _, c := range []struct{ row, want string }{
			{`"id":7,"day":20512`, `{"id":7,"day":"2026-02-28"}`},
			{`"day":null`, `{"day":null}`},
			{`"placed":1500000,"seen":1500`, `{"placed":"1970-01-01T00:00:01.5","seen":"1970-01-01T00:00:01.5"}`},
			{`"total":12.50`, `{"total":12.50}`},
			{`"exact":{"scale":3,"value":"MDk="}`, `{"exact":12.345}`},
			{`"days":[0,1],"dayOf":{"a":0}`, `{"days":["1970-01-01","1970-01-02"],"dayOf":{"a":"1970-01-01"}}`},
			{`"parts":[{"parts":[{"day":0}]}],"other":[{"day":0}]`, `{"parts":[{"parts":[{"day":"1970-01-01"}]}],"other":[{"day":0}]}`},
			{`"id":7,"placed":9223372036854775807`, `{"id":7}; placed: ` + ruleYears},
		} {
			v, err := soon(t, r.Decoder(FormatJSONSchema), framed(id, fmt.Appendf(nil, `{"before":null,"after":{%s},"source":{"lsn":9},"op":"u"}`, c.row)...))
			if err != nil {
				t.Errorf("%s: %v", c.row, err)
				continue
			}
			ch, err := NewDebezium("").Change(v)
			ch.Row = ObjectValue(ch.Row.Items()[:max(0, len(ch.Row.Items())-2)]) // without __op and __source
			if got := story(ch, err); got != "upsert "+c.want {
				t.Errorf("%s:\n got %s\nwant upsert %s", c.row, got, c.want)
			}
		}
	})
}

// Where values are not checked, decimals may come as their bytes.
func TestJSONSchemasThatNameNothingChangeNothing(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"number","title":"org.apache.kafka.connect.data.Decimal","connect.parameters":{"scale":"2"}}`, `"BOI="`, `12.50`},
		{`{"type":"integer","title":"Date"}`, `5`, `5`},
		{`{"type":"object","properties":{"a":{"title":"com.example.Day"}}}`, `{"a":1}`, `{"a":1}`},
		{`{"$ref":"#"}`, `{"a":1}`, `{"a":1}`},
		{`{"properties":{"a":{"$ref":"elsewhere.json"},"b":{"title":"io.debezium.time.Date"}}}`, `{"a":1,"b":0}`, `{"a":1,"b":"1970-01-01"}`},
		{`{"oneOf":[{"title":"io.debezium.time.Date"},{"type":"string"}]}`, `0`, `0`},
		{`{"properties":{"a":{"title":"io.debezium.time.Date"}},"allOf":[{"required":["a"]}]}`, `{"a":0}`, `{"a":"1970-01-01"}`},
		{`{"items":{"title":"io.debezium.time.Date"},"oneOf":[{"minItems":1}]}`, `[0]`, `["1970-01-01"]`},
		{`{"title":"io.debezium.time.Date","anyOf":[{"type":"null"},{"type":"integer"}]}`, `0`, `"1970-01-01"`},
		{`{"title":"day","oneOf":[{"type":"null"},{"title":"io.debezium.time.Date"}]}`, `0`, `"1970-01-01"`},
		{`{`, `{"a":1}`, `{"a":1}`},
		{`true`, `1`, `1`},
	} {
		if got := string(jsonTypes(c.schema).apply(jsonValue(t, c.value)).AppendJSON(nil)); got != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.schema, c.value, got, c.want)
		}
	}
}
