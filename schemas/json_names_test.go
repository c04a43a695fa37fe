package schemas

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"
)

// learned returns decoders of each kind that have learnt from the texts.
func learned(t *testing.T, texts ...string) map[string]*JSON {
	t.Helper()
	all := map[string]*JSON{"owning": NewJSON(), "fleeting": NewFleetingJSON(), "borrowing": NewBorrowingJSON()}
	for _, d := range all {
		for _, text := range texts {
			d.names.unknown = maxNamesPause
			if _, err := d.Decode([]byte(text)); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	return all
}

// sameAsFresh decodes a text with a decoder and with one that knows no names, and
// returns the two results where they differ.
func sameAsFresh(d *JSON, data []byte) (v Value, difference string) {
	v, err := d.Decode(bytes.Clone(data))
	want, wantErr := NewJSON().Decode(data)
	if !v.Equal(want) || !bytes.Equal(v.AppendJSON(nil), want.AppendJSON(nil)) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		difference = fmt.Sprintf("%q: got %s, %v; want %s, %v", data, v.AppendJSON(nil), err, want.AppendJSON(nil), wantErr)
	}
	return v, difference
}

// expectedTexts are read wholly by what was learnt.
var expectedTexts = []struct {
	name   string
	learnt []string
	text   string
}{
	{"the same names", []string{`{"a":1,"b":{"c":"x"},"d":[]}`}, `{"a":[true],"b":{"c":null},"d":"y"}`},
	{"members left out", []string{`{"a":1,"b":2,"c":{"d":3,"e":4},"f":5}`}, `{"a":1,"c":{"d":3},"f":5}`},
	{"objects left out", []string{`{"a":{"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7},"i":8}`}, `{"a":null,"i":{}}`},
	{"none at all", []string{`{"a":1,"b":2}`}, `{ }`},
	{"no object", []string{`{"a":1}`}, `[7]`},
	{"spaces as this producer writes them", []string{"{\n  \"a\": 1,\n  \"b\": {\"c\" :\t2}\n}"}, "{\n  \"a\": \"x\",\n  \"b\": {\"c\" :\tfalse}}"},
	{"more spaces before values", []string{`{"a":1,"b":2}`}, "{\"a\": 1,\"b\":\n2 }"},
	{"longer lists of objects", []string{`{"l":[{"x":1,"y":2}],"m":3}`}, `{"l":[{"x":1,"y":2},{"x":3},{},{"x":4,"y":5}],"m":6}`},
	{"lists of unlike objects", []string{`[{"x":1,"y":2},{"z":3},[{"w":4}]]`}, `[{"z":5},{"x":6,"y":7},{"w":8},[{"z":9}]]`},
	{"either of two shapes", []string{`{"op":1,"a":2}`, `{"op":1,"b":{"c":3}}`}, `{"op":1,"a":4}`},
	{"the other one", []string{`{"op":1,"a":2}`, `{"op":1,"b":{"c":3}}`}, `{"op":1,"b":{"c":5}}`},
	{"names within names", []string{`{"a":1,"ab":2,"":3,"é":4}`}, `{"a":1,"ab":2,"":3,"é":4}`},
	{"a name of an outer object", []string{`{"a":{"a":{"a":1}}}`}, `{"a":{"a":{"a":2}}}`},
}

func TestNamesExpectWhatWasLearnt(t *testing.T) {
	for _, c := range expectedTexts {
		for kind, d := range learned(t, c.learnt...) {
			if _, difference := sameAsFresh(d, []byte(c.text)); difference != "" {
				t.Errorf("%s, %s: %s", c.name, kind, difference)
			}
			if d.names.unknown != 0 {
				t.Errorf("%s, %s: %s: got a member that was not expected", c.name, kind, c.text)
			}
		}
	}
}

// unexpectedTexts must be judged as if nothing had been learnt.
var unexpectedTexts = []struct {
	name   string
	learnt []string
	texts  []string
}{
	{"a name twice", []string{`{"a":1,"b":2}`}, []string{`{"a":1,"a":2}`, `{"a":1,"b":2,"a":3}`, `{"a":1,"b":2,"b":3}`, `{"b":1,"b":2}`, `{"a":1,"c":2,"a":3}`, `{"a":1,"c":2,"b":3,"b":4}`, `{"a":1,"\u0061":2}`}},
	{"of an inner object and of the outer one", []string{`{"a":{"b":1},"b":2}`}, []string{`{"a":{"b":1,"b":2}}`, `{"a":{"b":1},"b":2,"b":3}`, `{"a":{"b":1,"a":2,"b":3}}`, `{"a":1,"b":2}`}},
	{"again after an inner object", []string{`{"a":{"b":1},"c":2}`}, []string{`{"a":{"b":1},"a":2}`, `{"a":{"b":1},"c":2,"a":{"b":1}}`}},
	{"of two shapes", []string{`{"a":1,"b":2,"c":3}`, `{"a":1,"c":2,"b":3}`, `{"c":1,"a":2,"b":3}`}, []string{`{"a":1,"b":2,"c":3,"b":4}`, `{"a":1,"c":2,"b":3,"c":4}`, `{"c":1,"a":2,"c":3}`, `{"a":1,"c":3,"b":4}`}},
	{"learnt where another was left out", []string{`{"a":1,"b":2,"c":3}`, `{"a":1,"c":2,"b":3,"d":4}`, `{"a":1,"c":2,"d":3,"b":4}`}, []string{`{"a":1,"b":2,"c":3,"b":4}`, `{"a":1,"b":2,"c":3,"d":4,"b":5}`}},
	{"of a list's objects", []string{`[{"x":1,"y":2},{"y":1,"x":2}]`}, []string{`[{"x":1,"y":2,"x":3}]`, `[{"x":1},{"x":1,"x":2}]`, `[{"y":1,"x":2,"y":3}]`}},
	{"after an empty object", []string{`{"a":{},"b":1}`}, []string{`{"a":{"b":1,"b":2},"b":3}`, `{"a":{},"a":1}`}},
	{"a comma too many or missing", []string{`{"a":1,"b":2}`}, []string{`{,"b":2}`, `{"a":1"b":2}`, `{"a":1,}`, `{"a":1,,"b":2}`, `{"c":1"a":2}`, `{,"a":1}`, `{,}`, `{"a":1 "b":2}`, `{"a":1;"c":2}`, `{"a":1;"b":2}`}},
	{"nothing behind the name", []string{`{"a": 1, "b": 2}`}, []string{`{"a": `, `{"a": }`, `{"a": ,"b": 2}`, `{"a": 1, "b": `, `{"a": 1, "b": }`, `{"a": 1, "b`, `{"a`}},
	{"a value that is broken", []string{`{"a":1,"b":{"c":2}}`}, []string{`{"a":01}`, `{"a":1,"b":{"c":tru}}`, `{"a":1,"b":{"c":2}`, "{\"a\":\"\xff\"}"}},
	{"names with escapes", []string{`{"a\n":1,"b":2}`, `{"a":{"\u0062":1,"c":2},"d":3}`}, []string{`{"a\n":1,"b":2}`, `{"a\n":1,"a\n":2}`, `{"a":{"b":1,"c":2,"\u0062":3}}`, `{"a":{"c":1,"c":2}}`, `{"b":1,"b":2}`}},
}

func TestNamesLetNoWrongTextPass(t *testing.T) {
	for _, c := range unexpectedTexts {
		for _, text := range c.texts {
			for kind, d := range learned(t, c.learnt...) {
				if _, difference := sameAsFresh(d, []byte(text)); difference != "" {
					t.Errorf("%s, %s: %s", c.name, kind, difference)
				}
			}
		}
	}
}

// TestNamesLeaveManyNamesAlone: of an object of maxPlain members all are expected,
// one more makes it the token reader's.
func TestNamesLeaveManyNamesAlone(t *testing.T) {
	var b strings.Builder
	for i := range maxPlain {
		fmt.Fprintf(&b, `,"m%d":%d`, i, i)
	}
	most := "{" + b.String()[1:] + "}"
	for _, more := range []string{`,"more":1}`, `,"m0":1}`} {
		for kind, d := range learned(t, most) {
			if _, difference := sameAsFresh(d, []byte(most)); difference != "" || d.names.unknown != 0 {
				t.Errorf("%s: %d records not as expected; %s", kind, d.names.unknown, difference)
			}
			if _, difference := sameAsFresh(d, []byte(strings.Replace(most, "}", more, 1))); difference != "" {
				t.Errorf("%s: %s", kind, difference)
			}
		}
	}
}

// TestNamesStayWithinTheirBounds feeds names that are ever new, many and long.
func TestNamesStayWithinTheirBounds(t *testing.T) {
	d := NewFleetingJSON()
	for i := range 60 {
		var b strings.Builder
		for n := range 40 {
			fmt.Fprintf(&b, `,"%d.%d%s":[{"%d":%d}]`, i, n, strings.Repeat("x", i*n*5%300), i, n)
		}
		d.names.unknown = maxNamesPause
		if _, difference := sameAsFresh(d, []byte("{"+b.String()[1:]+"}")); difference != "" {
			t.Fatal(difference)
		}
		if broken := d.names.broken(); broken != "" {
			t.Fatalf("record %d: %s", i, broken)
		}
	}
}

// broken says what does not hold of what is known: its bounds, and that no object
// on a path has a name twice.
func (n *names) broken() string {
	members, text, found := 0, 0, ""
	var walk func(at *expected, first bool, before []string)
	walk = func(at *expected, first bool, before []string) {
		for e := at; e != nil; e = e.other {
			members, text = members+1, text+len(e.raw)
			switch {
			case len(e.raw) > maxNameText:
				found = fmt.Sprintf("%q is %d bytes long", e.raw, len(e.raw))
			case first == strings.Contains(strings.SplitN(e.raw, `"`, 2)[0], ","):
				found = fmt.Sprintf("%q stands in the wrong place", e.raw)
			case slices.Contains(before, e.name):
				found = fmt.Sprintf("%q follows itself: %q", e.name, before)
			}
			walk(e.next, false, append(slices.Clip(before), e.name))
			walk(e.inner, true, nil)
		}
	}
	walk(n.first, true, nil)
	if members > maxNames || text > maxNamesText || members != n.members || text != n.text {
		return fmt.Sprintf("%d members of %d bytes, counted as %d and %d; allowed are %d and %d", members, text, n.members, n.text, maxNames, maxNamesText)
	}
	return found
}

// TestNamesLearntAgainComeFirst has more shapes than a member is compared with.
func TestNamesLearntAgainComeFirst(t *testing.T) {
	var texts []string
	for i := range 2 * maxLook {
		texts = append(texts, fmt.Sprintf(`{"n%d":[{"a":1}]}`, i))
	}
	for kind, d := range learned(t, append(texts, texts[0])...) {
		members := d.names.members
		for range 2 {
			if _, difference := sameAsFresh(d, []byte(texts[0])); difference != "" || d.names.unknown != 0 {
				t.Errorf("%s: %d records not as expected; %s", kind, d.names.unknown, difference)
			}
		}
		if broken := d.names.broken(); broken != "" || members != 2*len(texts) {
			t.Errorf("%s: got %d members, want %d; %s", kind, members, 2*len(texts), broken)
		}
	}
}

// TestNamesHoldNoRecord: what was learnt is no part of the record, whose memory
// a borrowing decoder leaves to others.
func TestNamesHoldNoRecord(t *testing.T) {
	d := NewBorrowingJSON()
	held := func() weak.Pointer[byte] {
		data := []byte(`{"a":"a text of some length","b":{"c":[{"d":1}]}}`)
		for range 2 {
			if _, err := d.Decode(data); err != nil {
				t.Fatal(err)
			}
		}
		return weak.Make(&data[0])
	}()
	if _, err := d.Decode([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if runtime.GC(); held.Value() != nil || d.names.members != 4 {
		t.Errorf("got %d names, and the record is held: %v; want 4, false", d.names.members, held.Value() != nil)
	}
	runtime.KeepAlive(d)
}

// TestNamesAreLearntRarely: of records that are ever new few are learnt from, of a
// new shape soon one.
func TestNamesAreLearntRarely(t *testing.T) {
	d := NewFleetingJSON()
	decode := func(text string) {
		if _, err := d.Decode([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	learnings := func(n int, record func(i int) string) (count int) {
		for i := range n {
			before := d.names.unknown
			decode(record(i))
			if d.names.unknown == 0 && before > 0 {
				count++
			}
		}
		return count
	}
	if got := learnings(1, func(int) string { return `{"once":1}` }); got != 0 || d.names.first != nil {
		t.Errorf("one record: got %d learnings, want none: many a decoder has no other", got)
	}
	if got := learnings(1000, func(int) string { return `{"a":1}` }); got != 1 {
		t.Errorf("records of one shape: got %d learnings, want 1", got)
	}
	if got := learnings(1000, func(int) string { return `{"b":1}` }); got != 1 || d.names.unknown != 0 {
		t.Errorf("records of another: got %d learnings, %d records since that were not as expected; want 1, none", got, d.names.unknown)
	}
	if got := learnings(20_000, func(i int) string { return fmt.Sprintf(`{"n%d":1}`, i) }); got < 5 || got > 12 {
		t.Errorf("20,000 records of ever new names: got %d learnings, want about 10", got)
	}
}

// FuzzJSONNames: a decoder that learns names from each text of a row reads the
// next ones as one that knows none.
func FuzzJSONNames(f *testing.F) {
	row := func(texts ...string) { f.Add([]byte(strings.Join(texts, "\x00"))) }
	for _, c := range expectedTexts {
		row(append(slices.Clone(c.learnt), c.text)...)
	}
	for _, c := range unexpectedTexts {
		row(append(slices.Clone(c.learnt), c.texts...)...)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		texts := bytes.Split(data, []byte{0})
		for kind, d := range map[string]*JSON{"owning": NewJSON(), "fleeting": NewFleetingJSON(), "borrowing": NewBorrowingJSON()} {
			var got []Value
			for _, text := range texts {
				d.names.unknown = maxNamesPause
				v, difference := sameAsFresh(d, text)
				if difference != "" {
					t.Fatalf("%s: %s", kind, difference)
				}
				if broken := d.names.broken(); broken != "" {
					t.Fatalf("%s: after %q: %s", kind, text, broken)
				}
				got = append(got, v)
			}
			for i, v := range got {
				want, _ := NewJSON().Decode(texts[i])
				if kind == "owning" && !v.Equal(want) {
					t.Fatalf("text %d became %s, was %s", i, v.AppendJSON(nil), want.AppendJSON(nil))
				}
			}
		}
	})
}
