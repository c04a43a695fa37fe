package schemas

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSONKeepsEveryLiteral(t *testing.T) {
	for _, text := range []string{
		`null`, `true`, `false`, `0`, `-0.50`, `12345678901234567890123`, `1e400`, `""`, `"é"`, `[]`, `{}`,
		`{"a":1.0,"b":[1.50,{"c":null}],"d":{"e":"f"}}`,
		profileJSON, recordJSON,
	} {
		if got := string(decode(t, text).AppendJSON(nil)); got != text {
			t.Errorf("decoded and written again: got %s, want %s", got, text)
		}
	}
}

func TestJSONUnescapesNamesAndStrings(t *testing.T) {
	v := decode(t, ` { "\u0061\n" : "x\"y\\\ud83d\ude00" , "plain":"z"} `)
	if got, want := v.Get("a\n").Text(), `x"y\😀`; got != want {
		t.Errorf("escaped member: got %q, want %q", got, want)
	}
	if got, want := v.Get("plain").Text(), "z"; got != want {
		t.Errorf("plain member: got %q, want %q", got, want)
	}
}

// Its lists and objects are the next record's; its texts stay as long as its bytes do.
func TestTextsOutliveTheNextRecord(t *testing.T) {
	d := NewJSON()
	first, err := d.Decode([]byte(`{"a":"plain","b":"esc\u0061ped","c":12.50}`))
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{first.Get("a").Text(), first.Get("b").Text(), first.Get("c").Text()}
	for range 10 {
		if _, err := d.Decode([]byte(recordJSON)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(texts, " "), "plain escaped 12.50"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestJSONRefusesWhatIsNotStrictJSON(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	for _, tc := range []struct {
		name, text string
		offset     int64
		rule       string
	}{
		{"nothing", "", 0, "empty"},
		{"white space", " \n", 0, "empty"},
		{"cut off", `{"a":"secret`, 12, "ends too early"},
		{"cut between tokens", `{"a":`, 5, "ends too early"},
		{"no JSON", `{"a":secret}`, 5, "not valid JSON"},
		{"name is a number", `{1:2}`, 1, "not valid JSON"},
		{"comma missing", `[1 2]`, 3, "not valid JSON"},
		{"leading zero", `[01]`, 2, "not valid JSON"},
		{"lone surrogate", `["\ud800"]`, 2, "an escape is half of a surrogate pair, such as of an emoji that the producer has cut"},
		{"lone surrogate before text", `["a\uDBFFsecret"]`, 3, "an escape is half of a surrogate pair, such as of an emoji that the producer has cut"},
		{"the second half first, in a name", `{"\udC00":1}`, 2, "an escape is half of a surrogate pair, such as of an emoji that the producer has cut"},
		{"no escape", `["\ud7"]`, 2, "not valid JSON"},
		{"control character", "[\"\x01\"]", 2, "not valid JSON"},
		{"a name twice", `{"secret":1,"secret":2}`, 12, "a member name appears twice"},
		{"a name twice, once escaped", `{"a":1,"\u0061":2}`, 7, "a member name appears twice"},
		{"not UTF-8", "[\"secret\xff\"]", 8, "not valid UTF-8"},
		{"two values", `{"a":1}{"b":2}`, 8, "data after the value"},
		{"rubbish behind", `{"a":1} x`, 8, "not valid JSON"},
		{"too deep", deep, maxDepth, "nested deeper than 64 levels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := NewJSON().Decode([]byte(tc.text))
			got, ok := errors.AsType[*DecodeError](err)
			want := &DecodeError{Format: "json", Offset: tc.offset, Rule: tc.rule}
			if !ok || *got != *want {
				t.Fatalf("error: got %v, want %v", err, want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error carries data: %v", err)
			}
		})
	}
	if _, err := NewJSON().Decode(make([]byte, maxBytes+1)); err == nil {
		t.Error("a record beyond maxBytes: got no error")
	}
}

func TestJSONHoldsNoMoreValuesThanARecordMay(t *testing.T) {
	const zeros = "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
	members := []byte{'{'}
	for i := range maxValues {
		members = append(strconv.AppendInt(append(members, '"'), int64(i), 36), `":0,`...)
	}
	for name, text := range map[string]string{
		"a list":            "[" + strings.Repeat("0,", 4<<20) + "0]",
		"an object":         string(members) + `"":0}`,
		"lists in a list":   "[" + strings.Repeat("["+zeros+"0],", maxValues/16) + "0]",
		"and no JSON after": "[" + strings.Repeat("0,", 4<<20) + "secret",
	} {
		var err error
		data := []byte(text)
		if cost := costly(func() { _, err = NewJSON().Decode(data) }); cost > allowed(len(data)) {
			t.Errorf("%s: %d bytes cost %d", name, len(data), cost)
		}
		if got, ok := errors.AsType[*DecodeError](err); !ok || *got != (DecodeError{Format: "json", Offset: nowhere, Rule: errMany.Error()}) {
			t.Errorf("%s: got %v, want that it holds too many", name, err)
		}
	}
	d := NewJSON()
	for range 2 {
		if _, err := d.Decode([]byte("[" + strings.Repeat("0,", maxValues-2) + "0]")); err != nil {
			t.Errorf("as many as it may hold: got %v", err)
		}
	}
}

func TestJSONReadsTheDeepestAllowed(t *testing.T) {
	text := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	if got := string(decode(t, text).AppendJSON(nil)); got != text {
		t.Errorf("got %s, want %s", got, text)
	}
}

func TestJSONGoesOnAfterABadRecord(t *testing.T) {
	d := NewJSON()
	if _, err := d.Decode([]byte(`{"a":[1,{"b":`)); err == nil {
		t.Fatal("a record cut off: got no error")
	}
	v, err := d.Decode([]byte(recordJSON))
	if err != nil {
		t.Fatalf("the record after it: %v", err)
	}
	if got := string(v.AppendJSON(nil)); got != recordJSON {
		t.Errorf("the record after it: got %s, want %s", got, recordJSON)
	}
}

func TestJSONAllocatesOncePerRecordAndOncePerItsMembers(t *testing.T) {
	d := NewJSON()
	data := []byte(profileJSON)
	got := testing.AllocsPerRun(100, func() {
		if _, err := d.Decode(data); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 {
		t.Errorf("allocations per record: got %v, want at most 2", got)
	}
}

// FuzzJSON holds the decoder against encoding/json: what one takes the other
// takes, apart from the strictness that is ours, and both read the same. No
// record costs more memory than its bytes can mean.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{profileJSON, recordJSON, `[1,-0.0e+1,"\u00e9"]`, `{"a":{"b":[]}}`, `{"a":1,"a":2}`, ` x`} {
		f.Add([]byte(seed))
	}
	d := NewJSON()
	f.Fuzz(func(t *testing.T, data []byte) {
		var v Value
		var err error
		if cost := costly(func() { v, err = d.Decode(data) }); cost > allowed(len(data)) {
			t.Fatalf("%d bytes cost %d", len(data), cost)
		}
		if err == nil {
			again, err := NewJSON().Decode(v.AppendJSON(nil))
			if err != nil || !again.Equal(v) {
				t.Fatalf("written and decoded again: got %s (%v), want %s", again.AppendJSON(nil), err, v.AppendJSON(nil))
			}
			var want any
			if err := json.Unmarshal(data, &want); err != nil {
				// Numbers beyond float64 are the one thing that only we read.
				if _, isNumber := errors.AsType[*json.UnmarshalTypeError](err); !isNumber {
					t.Fatalf("encoding/json refuses what was decoded: %v", err)
				}
				return
			}
			if got := v.Any(); !reflect.DeepEqual(floats(got), want) {
				t.Fatalf("value: got %#v, want %#v", got, want)
			}
			return
		}
		refusal, ok := errors.AsType[*DecodeError](err)
		if !ok {
			t.Fatalf("error: got %T, want *DecodeError", err)
		}
		if refusal.Rule != "not valid JSON" && refusal.Rule != "ends too early" {
			return
		}
		// encoding/json lets lone surrogates through as replacement characters.
		if json.Valid(data) && utf8.Valid(data) && !strings.Contains(strings.ToLower(string(data)), `\ud`) {
			t.Fatalf("encoding/json takes what was refused with: %v", err)
		}
	})
}

// floats makes every number a float64, as encoding/json does.
func floats(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}
