package schemas

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// byTokens decodes a text with jsontext's token reader: what the reader has to do.
func byTokens(data []byte) (Value, error) {
	tokens := jsontext.NewDecoder(bytes.NewBuffer(data))
	v, err := nextOf(tokens)
	if err != nil {
		return Value{}, err
	}
	if _, err = tokens.ReadToken(); !errors.Is(err, io.EOF) {
		return Value{}, errTrailing
	}
	return v, nil
}

func nextOf(tokens *jsontext.Decoder) (v Value, err error) {
	token, err := tokens.ReadToken()
	if err != nil {
		return Value{}, err
	}
	switch token.Kind() {
	case jsontext.KindNull:
		return NullValue(), nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return BoolValue(token.Bool()), nil
	case jsontext.KindString:
		return StringValue(token.String()), nil
	case jsontext.KindNumber:
		return NumberValue(token.String()), nil
	}
	if tokens.StackDepth() > maxDepth {
		return Value{}, errTooDeep
	}
	kind, end := Object, jsontext.KindEndObject
	if token.Kind() == jsontext.KindBeginArray {
		kind, end = List, jsontext.KindEndArray
	}
	var items []Field
	for tokens.PeekKind() != end {
		var f Field
		if kind == Object {
			name, err := tokens.ReadToken()
			if err != nil {
				return Value{}, err
			}
			f.Name = name.String()
		}
		if f.Value, err = nextOf(tokens); err != nil {
			return Value{}, err
		}
		items = append(items, f)
	}
	_, err = tokens.ReadToken()
	return itemsValue(kind, items), err
}

// goodTexts are valid.
var goodTexts = []string{
	`{"op":"upsert","key":{"customerNumber":"C000123"},"profileId":null,"vip":true,"off":false,"languages":["fr","en"]}`,
	" {\t\"a\" : 1 ,\r\n\"b\": [ ] , \"c\":{ } } ", `[]`, `{}`, `0`, `-0.5e-10`, `12E+3`, `""`, `"é ü 日本 😀"`, `"exactly8"`, `"exactly8and16byte"`,
	`"tab\tquote\"slash\\ é 😀 \/"`, `{"a":1,"é":2,"ab":3,"ba":4,"aa":5}`, `[[[[1]]],"x"]`,
}

// brokenTexts break one rule each.
var brokenTexts = []string{
	``, ` `, `{`, `[`, `"`, `"a`, `"\`, `"\"`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,"a":1}`, `[,1]`, `{,}`, `[,]`, `{a:1}`, `[1,]`, `[1 2]`, `tru`, `truex`, `nulls`, `01`, `-`, `1.`, `.5`, `1e`,
	`1e+`, `+1`, `{} {}`, `1 2`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "\"\x01\"", "\"\x1f\"", "\"12345678\x00\"", "\"\xff\"", "\"ab\xc3\"", `"\ud800"`, `"\x"`, `"\u12"`,
	`{"a":1 "b":2}`, `{"a",1}`, "\xef\xbb\xbf{}", strings.Repeat("[", 65) + strings.Repeat("]", 65),
}

func TestJSONIsReadAsTokensAre(t *testing.T) {
	for _, text := range append(goodTexts, manyNames(100)) {
		got, err := NewJSON().Decode([]byte(text))
		if want, wantErr := byTokens([]byte(text)); err != nil || wantErr != nil || !got.Equal(want) {
			t.Errorf("%s: got %s, %v; want %s, %v", text, got.AppendJSON(nil), err, want.AppendJSON(nil), wantErr)
		}
	}
	for _, text := range append(brokenTexts, strings.Replace(manyNames(100), `"90"`, `"10"`, 1)) {
		got, err := NewJSON().Decode([]byte(text))
		if _, wantErr := byTokens([]byte(text)); err == nil || wantErr == nil {
			t.Errorf("%q: got %s, %v, by tokens %v; want both to refuse it", text, got.AppendJSON(nil), err, wantErr)
		}
	}
}

// manyNames is an object whose names are too many to be compared with each other.
func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"` + strconv.Itoa(i) + `":0`)
	}
	return "{" + b.String()[1:] + "}"
}

// FuzzJSONTokens: the reader takes exactly the texts that the token reader takes, as
// the same values.
func FuzzJSONTokens(f *testing.F) {
	for _, text := range append(goodTexts, brokenTexts...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := NewJSON().Decode(data)
		want, wantErr := byTokens(data)
		if (err == nil) != (wantErr == nil) || !got.Equal(want) {
			t.Errorf("got %s, %v, want %s, %v", got.AppendJSON(nil), err, want.AppendJSON(nil), wantErr)
		}
	})
}
