package config_test

import (
	"reflect"
	"testing"

	"github.com/feedsink/feedsink/router"
)

func TestFieldsTakeConstantsAsYAMLReadsThem(t *testing.T) {
	for written, want := range map[string]router.Literal{
		`shop`: `"shop"`, `"12"`: `"12"`, `12`: `12`, `-1.5`: `-1.5`, `1e3`: `1e3`, `true`: `true`, `'true'`: `"true"`, `""`: `""`,
		`00120`: `"00120"`, `2026-11-21`: `"2026-11-21"`, `a "b"`: `"a \"b\""`, `${WORD}`: `"thing"`, `${NUMBER}`: `7`,
	} {
		data := base + "    fields:\n      - {from: id, to: customerNumber}\n      - to: x\n        value: " + written + "\n"
		got := parse(t, data, "WORD", "thing", "NUMBER", "7").Mappings[0].Fields[1]
		if got.Value != want {
			t.Errorf("%s: got %s, want %s", written, got.Value, want)
		}
	}
}

func TestKeysAndChoicesMayBeWordsOfYAML(t *testing.T) {
	for written, want := range map[string]router.Field{
		`absent: null, null: omit`:             {Absent: router.AsNull, Null: router.Omit},
		`absent: "null", "null": "null"`:       {Absent: router.AsNull, Null: router.AsNull},
		`absent: reject, null: null`:           {Absent: router.Refuse, Null: router.AsNull},
		`absent: ~, null: , default: , expr: `: {},
		`default: 0`:                           {Default: "0"},
		`as: boolean, true: [Y, yes, on, 1, true], false: [N, "", 'null']`: {
			As: "boolean", True: []string{"Y", "yes", "on", "1", "true"}, False: []string{"N", "", "null"},
		},
		`as: boolean, "true": [Y], 'false': [N]`: {As: "boolean", True: []string{"Y"}, False: []string{"N"}},
		`as: number, decimal: ","`:               {As: "number", Decimal: ","},
	} {
		want.From, want.To = "a", "x"
		data := base + "    fields: [{from: id, to: customerNumber}, {from: a, to: x, " + written + "}]\n"
		if got := parse(t, data).Mappings[0].Fields[1]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", written, got, want)
		}
	}
}
