package schemas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a record's value. They are far beyond any event the service could
// take and keep one hostile record from costing more than its share.
const (
	maxDepth = 64       // objects and lists inside each other
	maxBytes = 64 << 20 // its length
)

var (
	errTooDeep  = errors.New("nested deeper than 64 levels")
	errTrailing = errors.New("data after the value")
)

// Decoder turns a record's bytes into a value, for one goroutine. The value is valid
// until the next Decode: its lists and objects are in memory that this reuses. Its
// texts stay valid, but they are parts of data, which must not change, and a text that
// is kept keeps all the memory that data is a part of: Write.Own copies what is kept
// for long. The errors are *DecodeError.
type Decoder interface {
	Decode(data []byte) (Value, error)
}

// jsonReader decodes one JSON text per call, strictly: duplicate member names,
// invalid UTF-8, anything after the value, more than maxDepth levels and more
// than maxBytes bytes are errors. Numbers keep their literal, and strings without
// escapes are parts of the record.
//
// It reads in one pass, straight into members, and knows only whether a text is
// good: what is wrong with a bad one, and where, is found out by jsontext.
//
// It keeps its working memory between calls, so each goroutine needs its own.
type jsonReader struct {
	data   []byte
	text   string // the same
	at     int
	memory memory
}

// NewJSON returns a decoder of JSON texts for one goroutine.
func NewJSON() Decoder { return new(jsonReader) }

// Decode implements Decoder.
func (r *jsonReader) Decode(data []byte) (Value, error) {
	if len(data) > maxBytes {
		return Value{}, &DecodeError{Format: string(FormatJSON), Offset: maxBytes, Rule: "longer than 64 MiB"}
	}
	r.data, r.text, r.at = data, unsafe.String(unsafe.SliceData(data), len(data)), 0
	r.memory.begin()
	v, ok := r.value(0)
	if r.space(); r.at < len(data) {
		ok = false
	}
	r.data, r.text = nil, ""
	r.memory.end()
	if !ok {
		return Value{}, explainJSON(data)
	}
	return v, nil
}

// space passes white space and returns what is behind it, 0 at the end. Mostly
// there is none.
func (r *jsonReader) space() byte {
	if r.at < len(r.data) && r.data[r.at] > ' ' {
		return r.data[r.at]
	}
	return r.spaces()
}

func (r *jsonReader) spaces() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *jsonReader) value(depth int) (v Value, ok bool) {
	switch r.space() {
	case '"':
		s, ok := r.str()
		return StringValue(s), ok
	case '{':
		return r.object(depth + 1)
	case '[':
		return r.list(depth + 1)
	case 't':
		return BoolValue(true), r.word("true")
	case 'f':
		return BoolValue(false), r.word("false")
	case 'n':
		return NullValue(), r.word("null")
	}
	return r.number()
}

func (r *jsonReader) word(w string) bool {
	if len(r.text)-r.at < len(w) || r.text[r.at:r.at+len(w)] != w {
		return false
	}
	r.at += len(w)
	return true
}

// object reads an object whose brace is next.
func (r *jsonReader) object(depth int) (v Value, ok bool) {
	if r.at++; depth > maxDepth {
		return v, false
	}
	base := len(r.memory.open)
	for more := r.space() != '}'; more; more = r.comma() {
		if r.space() != '"' {
			return v, false
		}
		var f Field
		if f.Name, ok = r.str(); !ok || r.space() != ':' {
			return v, false
		}
		r.at++
		if f.Value, ok = r.value(depth); !ok {
			return v, false
		}
		r.memory.open = append(r.memory.open, f)
	}
	if r.space() != '}' || repeats(r.memory.open[base:]) {
		return v, false
	}
	r.at++
	return ObjectValue(r.memory.keep(base)), true
}

// list reads a list whose bracket is next.
func (r *jsonReader) list(depth int) (v Value, ok bool) {
	if r.at++; depth > maxDepth {
		return v, false
	}
	base := len(r.memory.open)
	for more := r.space() != ']'; more; more = r.comma() {
		var f Field
		if f.Value, ok = r.value(depth); !ok {
			return v, false
		}
		r.memory.open = append(r.memory.open, f)
	}
	if r.space() != ']' {
		return v, false
	}
	r.at++
	return ListValue(r.memory.keep(base)), true
}

// comma passes a comma, if that is next.
func (r *jsonReader) comma() bool {
	if r.space() != ',' {
		return false
	}
	r.at++
	return true
}

// number reads a number as JSON's grammar has it, and keeps its literal.
func (r *jsonReader) number() (v Value, ok bool) {
	start := r.at
	if r.next('-') {
		r.at++
	}
	whole := r.at
	if n := r.digits(); n == 0 || n > 1 && r.data[whole] == '0' {
		return v, false
	}
	if r.next('.') {
		r.at++
		if r.digits() == 0 {
			return v, false
		}
	}
	if r.next('e') || r.next('E') {
		r.at++
		if r.next('+') || r.next('-') {
			r.at++
		}
		if r.digits() == 0 {
			return v, false
		}
	}
	return NumberValue(r.text[start:r.at]), true
}

func (r *jsonReader) next(c byte) bool { return r.at < len(r.data) && r.data[r.at] == c }

// digits passes digits and counts them.
func (r *jsonReader) digits() int {
	start := r.at
	for r.at < len(r.data) && r.data[r.at]-'0' <= 9 {
		r.at++
	}
	return r.at - start
}

// str reads the string, a value or a member's name, whose quote is next.
func (r *jsonReader) str() (string, bool) {
	start := r.at + 1
	at := plainUntil(r.data, start)
	if at < len(r.data) && r.data[at] == '"' {
		r.at = at + 1
		return r.text[start:at], true
	}
	r.at = at
	return r.special(start)
}

// special reads on in the string that begins at start and has a byte that a string
// cannot just hold.
func (r *jsonReader) special(start int) (string, bool) {
	escaped := false
	for ; r.at < len(r.data); r.at = plainUntil(r.data, r.at) {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			s := r.text[start : r.at-1]
			if !utf8.ValidString(s) {
				return "", false
			}
			if !escaped {
				return s, true
			}
			unquoted, err := jsontext.AppendUnquote(nil, r.data[start-1:r.at])
			return string(unquoted), err == nil
		case c == '\\':
			escaped = true
			r.at += 2 // whatever it is, it does not end the string
		case c >= utf8.RuneSelf:
			r.at++
		default:
			return "", false
		}
	}
	return "", false
}

// plainUntil is where, from at on, the next byte is that a string cannot just hold: a
// quote, a backslash, a control character, or one that is not ASCII.
func plainUntil(data []byte, at int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; at+8 <= len(data); at += 8 {
		x := binary.LittleEndian.Uint64(data[at : at+8])
		// A byte that is 0, or less than the space, borrows from its highest bit.
		// Later bytes may be mistaken, the first one never is.
		quote, slash := x^'"'*ones, x^'\\'*ones
		found := (x | (quote - ones) | (slash - ones) | (x - ' '*ones)) & high
		if found != 0 {
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for ; at < len(data); at++ {
		if c := data[at]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return at
}

// explainJSON is the first error of a text that has one, worded without the data
// that jsontext's own messages quote.
func explainJSON(data []byte) *DecodeError {
	tokens := jsontext.NewDecoder(bytes.NewBuffer(data))
	var err error
	for err == nil {
		kind := tokens.PeekKind()
		opens := kind == jsontext.KindBeginObject || kind == jsontext.KindBeginArray
		if opens && tokens.StackDepth() == maxDepth {
			err = errTooDeep
		} else if _, err = tokens.ReadToken(); err == nil && tokens.StackDepth() == 0 {
			if _, err = tokens.ReadToken(); err == nil {
				err = errTrailing
			}
		}
	}
	e := &DecodeError{Format: string(FormatJSON), Offset: tokens.InputOffset(), Rule: "not valid JSON"}
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
