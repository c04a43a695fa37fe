package schemas

import (
	"math"
	"reflect"
	"testing"
)

func TestAnyIsPlainGo(t *testing.T) {
	got := decode(t, `{"n":null,"b":true,"i":-7,"big":123456789012345678901,"f":1.5,"huge":1e999,"s":"x","l":[1,"y"]}`).Any()
	want := map[string]any{
		"n": nil, "b": true, "i": -7, "big": 123456789012345678901.0, "f": 1.5, "huge": math.Inf(1),
		"s": "x", "l": []any{1, "y"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	if got := (Value{}).Any(); got != nil {
		t.Errorf("Absent: got %#v, want nil", got)
	}
}

func TestAppendJSONLeavesOutWhatIsAbsent(t *testing.T) {
	v := ObjectValue([]Field{
		{Name: "gone"},
		{Name: "here", Value: StringValue("a\"\n")},
		{Name: "list", Value: ListValue([]Field{{Value: NumberValue("1.0")}, {}})},
		{Name: "no", Value: NullValue()},
	})
	if got, want := string(v.AppendJSON([]byte("> "))), `> {"here":"a\"\n","list":[1.0,null],"no":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEqualTellsValuesApart(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[true,null]}`, `{"b":[true,null],"a":1}`, true},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":null}`, `{"b":null}`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[]`, `{}`, false},
	} {
		if got := decode(t, tc.a).Equal(decode(t, tc.b)); got != tc.want {
			t.Errorf("%s equal %s: got %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestIsWholeTakesOneSpellingOnly(t *testing.T) {
	for text, want := range map[string]bool{
		`0`: true, `17`: true, `-3`: true, `12345678901234567890`: true,
		`-0`: false, `1.0`: false, `1e3`: false, `"17"`: false, `true`: false,
	} {
		if got := decode(t, text).IsWhole(); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// decode is the value of a JSON text that the test wrote itself.
func decode(t *testing.T, text string) Value {
	t.Helper()
	v, err := NewJSON().Decode([]byte(text))
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}
