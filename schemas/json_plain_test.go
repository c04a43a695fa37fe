package schemas

import (
	"strings"
	"testing"
)

// bothWays decodes a text with the plain reader and with the token reader.
func bothWays(data []byte) (plain Value, ok bool, strict Value, err error) {
	d := NewJSON()
	d.text.begin(data)
	d.memory.begin()
	plain, ok = d.plain(data)
	d = NewJSON()
	d.text.begin(data)
	d.memory.begin()
	strict, err = d.strict(data)
	return plain, ok, strict, err
}

// plainTexts are good texts that the plain reader reads without help.
var plainTexts = []string{
	`{"op":"upsert","key":{"customerNumber":"C000123"},"profileId":null,"vip":true,"off":false,"languages":["fr","en"]}`,
	" {\t\"a\" : 1 ,\r\n\"b\": [ ] , \"c\":{ } } ", `[]`, `{}`, `0`, `-0.5e-10`, `12E+3`, `""`, `"é ü 日本 😀"`, `"exactly8"`, `"exactly8and16byte"`,
	`"tab\tquote\"slash\\ é 😀 \/"`, `{"a":1,"é":2,"ab":3,"ba":4,"aa":5}`, `[[[[1]]],"x"]`,
}

// brokenTexts break one rule each.
var brokenTexts = []string{
	``, ` `, `{`, `[`, `"`, `"a`, `"\`, `"\"`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `[1,]`, `[1 2]`, `tru`, `truex`, `nulls`, `01`, `-`, `1.`, `.5`, `1e`,
	`1e+`, `+1`, `{} {}`, `1 2`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "\"\x01\"", "\"\x1f\"", "\"12345678\x00\"", "\"\xff\"", "\"ab\xc3\"", `"\ud800"`, `"\x"`, `"\u12"`,
	`{"a":1 "b":2}`, `{"a",1}`, "\xef\xbb\xbf{}", strings.Repeat("[", 65) + strings.Repeat("]", 65),
}

func TestPlainReaderReadsWhatTheTokenReaderReads(t *testing.T) {
	for _, text := range plainTexts {
		plain, ok, strict, err := bothWays([]byte(text))
		if !ok || err != nil || !plain.Equal(strict) {
			t.Errorf("%s: got %s, %v; want %s, %v", text, plain.AppendJSON(nil), ok, strict.AppendJSON(nil), err)
		}
	}
}

func TestPlainReaderLeavesBrokenTextsAlone(t *testing.T) {
	for _, text := range brokenTexts {
		if plain, ok, _, err := bothWays([]byte(text)); ok || err == nil {
			t.Errorf("%q: got %s, %v, token reader %v; want it refused by both", text, plain.AppendJSON(nil), ok, err)
		}
	}
}

// TestPlainReaderLeavesManyNamesAlone: comparing them with each other would take
// the square of their number.
func TestPlainReaderLeavesManyNamesAlone(t *testing.T) {
	var b strings.Builder
	for i := range maxPlain + 1 {
		b.WriteString(`,"` + strings.Repeat("x", i) + `":0`)
	}
	if _, ok, _, err := bothWays([]byte("{" + b.String()[1:] + "}")); ok || err != nil {
		t.Errorf("got %v, %v, want it left to the token reader, which reads it", ok, err)
	}
}

// FuzzPlainJSON: whatever the plain reader accepts, the token reader accepts as
// the same value.
func FuzzPlainJSON(f *testing.F) {
	for _, text := range append(plainTexts, brokenTexts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, ok, strict, err := bothWays(data)
		if ok && (err != nil || !plain.Equal(strict)) {
			t.Errorf("got %s, want %s, %v", plain.AppendJSON(nil), strict.AppendJSON(nil), err)
		}
	})
}
