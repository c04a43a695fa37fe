package schemas

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a JSON value. They are far beyond any event the service could
// take and keep one hostile record from costing more than its share.
const (
	MaxDepth = 64       // objects and lists inside each other
	MaxBytes = 64 << 20 // length of one record's value
)

// Decoder turns a record's bytes into a value, for one goroutine. The value is valid
// until the next Decode: its lists and objects are in memory that this reuses. Its
// texts stay valid, but they are parts of data, which must not change, and a text that
// is kept keeps all the memory that data is a part of: Write.Own copies what is kept
// for long. The errors are *DecodeError.
type Decoder interface {
	Decode(data []byte) (Value, error)
}

// JSON decodes one JSON text per call, strictly: duplicate member names,
// invalid UTF-8, anything after the value, more than MaxDepth levels and more
// than MaxBytes bytes are errors. Numbers keep their literal.
//
// It keeps its working memory between calls, so each goroutine needs its own.
type JSON struct {
	tokens *jsontext.Decoder
	source bytes.Buffer
	text   texts // strings without escapes are parts of the record
	memory memory
}

// NewJSON returns a decoder for one goroutine.
func NewJSON() *JSON {
	return &JSON{tokens: jsontext.NewDecoder(bytes.NewReader(nil))}
}

// Decode implements Decoder.
func (d *JSON) Decode(data []byte) (Value, error) {
	if len(data) > MaxBytes {
		return Value{}, &DecodeError{Format: "json", Offset: MaxBytes, Rule: "longer than 64 MiB"}
	}
	d.text.begin(data)
	d.memory.begin()
	v, ok := d.plain(data)
	var err error
	if !ok {
		v, err = d.strict(data)
	}
	d.text.end()
	d.memory.end()
	return v, err
}

// strict reads with the token reader.
func (d *JSON) strict(data []byte) (Value, error) {
	d.source = *bytes.NewBuffer(data)
	d.tokens.Reset(&d.source)
	v, err := d.value(0)
	if err == nil {
		err = d.end()
	}
	if err != nil {
		v, err = Value{}, d.explain(data, err)
	}
	d.source = bytes.Buffer{}
	d.tokens.Reset(&d.source) // it would hold data until it has to read again
	return v, err
}

var (
	errTooDeep  = errors.New("nested deeper than 64 levels")
	errTrailing = errors.New("data after the value")
)

func (d *JSON) value(depth int) (Value, error) {
	switch d.tokens.PeekKind() {
	case jsontext.KindBeginObject:
		return d.container(Object, jsontext.KindEndObject, depth+1)
	case jsontext.KindBeginArray:
		return d.container(List, jsontext.KindEndArray, depth+1)
	case jsontext.KindString:
		s, err := d.str()
		return StringValue(s), err
	default:
		raw, err := d.tokens.ReadValue()
		if err != nil {
			return Value{}, err
		}
		switch raw[0] {
		case 'n':
			return NullValue(), nil
		case 't':
			return BoolValue(true), nil
		case 'f':
			return BoolValue(false), nil
		}
		return NumberValue(d.part(raw)), nil
	}
}

// container reads an object or a list whose opening token is next.
func (d *JSON) container(kind Kind, end jsontext.Kind, depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, errTooDeep
	}
	if _, err := d.tokens.ReadToken(); err != nil {
		return Value{}, err
	}
	base := len(d.memory.open)
	for d.tokens.PeekKind() != end {
		var f Field
		var err error
		if kind == Object {
			if f.Name, err = d.str(); err != nil {
				return Value{}, err
			}
		}
		if f.Value, err = d.value(depth); err != nil {
			return Value{}, err
		}
		d.memory.open = append(d.memory.open, f)
	}
	if _, err := d.tokens.ReadToken(); err != nil {
		return Value{}, err
	}
	return itemsValue(kind, d.memory.keep(base)), nil
}

// str reads the string, a value or a member's name, that is next.
func (d *JSON) str() (string, error) {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return "", err
	}
	if raw[0] != '"' {
		return "", errors.New("a member name must be a string")
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		s := d.part(raw)
		return s[1 : len(s)-1], nil
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	return string(s), err
}

// part is raw, which was just read, as a part of the record.
func (d *JSON) part(raw jsontext.Value) string {
	end := int(d.tokens.InputOffset())
	return d.text.record[end-len(raw) : end]
}

func (d *JSON) end() error {
	_, err := d.tokens.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errTrailing
	}
	return err
}

// explain words an error without the data that jsontext's own messages quote.
func (d *JSON) explain(data []byte, err error) *DecodeError {
	e := &DecodeError{Format: "json", Offset: d.tokens.InputOffset(), Rule: "not valid JSON"}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		e.Offset = syntactic.ByteOffset
	}
	switch {
	case errors.Is(err, errTooDeep), errors.Is(err, errTrailing):
		e.Rule = err.Error()
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Rule = "a member name appears twice"
	case !utf8.Valid(data):
		e.Rule = "not valid UTF-8"
	case len(bytes.TrimSpace(data)) == 0:
		e.Rule = "empty"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Rule = "ends too early"
	}
	return e
}
