package schemas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"strings"
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
// invalid UTF-8, anything after the value, more than maxDepth levels, more than
// maxValues values and more than maxBytes bytes are errors. Numbers keep their literal, and strings without
// escapes are parts of the record.
//
// It reads in one pass, straight into members, and knows only whether a text is
// good: what is wrong with a bad one, and where, is found out by jsontext.
//
// It keeps its working memory between calls, so each goroutine needs its own.
type jsonReader struct {
	data   []byte
	text   string // the same
	room   int    // values that may still come
	memory memory
}

// NewJSON returns a decoder of JSON texts for one goroutine.
func NewJSON() Decoder { return new(jsonReader) }

// Decode implements Decoder.
func (r *jsonReader) Decode(data []byte) (Value, error) {
	if len(data) > maxBytes {
		return Value{}, &DecodeError{Format: string(FormatJSON), Offset: maxBytes, Rule: "longer than 64 MiB"}
	}
	r.data, r.text = data, unsafe.String(unsafe.SliceData(data), len(data))
	r.room = maxValues
	r.memory.begin()
	v, at := r.value(0, 0)
	if at >= 0 {
		at, _ = space(data, at)
	}
	r.data, r.text = nil, ""
	r.memory.end()
	if r.room < 0 { // what comes after it may be bad, too: explaining that would cost as much again
		return Value{}, &DecodeError{Format: string(FormatJSON), Offset: nowhere, Rule: errMany.Error()}
	}
	if at < len(data) {
		return Value{}, explainJSON(data)
	}
	return v, nil
}

// bad is where the methods of a jsonReader end that find a bad text. They take the place
// at which they begin and return the one behind what they read: a place that is kept in
// memory would cost a fifth of the time.
const bad = -1

// space is the first place from at on that is not white space, and what is there, 0 at
// the end. Mostly it is at.
func space(data []byte, at int) (int, byte) {
	if at < len(data) && data[at] > ' ' {
		return at, data[at]
	}
	return spaces(data, at)
}

func spaces(data []byte, at int) (int, byte) {
	for ; at < len(data); at++ {
		switch c := data[at]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return at, c
		}
	}
	return at, 0
}

func (r *jsonReader) value(at, depth int) (v Value, end int) {
	if r.room--; r.room < 0 {
		return v, bad
	}
	at, c := space(r.data, at)
	switch c {
	case '"':
		s, end := r.str(at)
		return StringValue(s), end
	case '{':
		return r.object(at, depth+1)
	case '[':
		return r.list(at, depth+1)
	case 't':
		return BoolValue(true), r.word(at, "true")
	case 'f':
		return BoolValue(false), r.word(at, "false")
	case 'n':
		return NullValue(), r.word(at, "null")
	}
	return r.number(at)
}

func (r *jsonReader) word(at int, w string) (end int) {
	if len(r.text)-at < len(w) || r.text[at:at+len(w)] != w {
		return bad
	}
	return at + len(w)
}

// object reads an object whose brace is at.
func (r *jsonReader) object(at, depth int) (v Value, end int) {
	if depth > maxDepth {
		return v, bad
	}
	base := len(r.memory.open)
	at, c := space(r.data, at+1)
	for more := c != '}'; more; {
		if c != '"' {
			return v, bad
		}
		var f Field
		if f.Name, at = r.str(at); at < 0 {
			return v, bad
		}
		if at, c = space(r.data, at); c != ':' {
			return v, bad
		}
		if f.Value, at = r.value(at+1, depth); at < 0 {
			return v, bad
		}
		r.memory.open = append(r.memory.open, f)
		if at, c = space(r.data, at); c == ',' {
			at, c = space(r.data, at+1)
		} else {
			more = false
		}
	}
	if c != '}' || repeats(r.memory.open[base:]) {
		return v, bad
	}
	return ObjectValue(r.memory.keep(base)), at + 1
}

// list reads a list whose bracket is at.
func (r *jsonReader) list(at, depth int) (v Value, end int) {
	if depth > maxDepth {
		return v, bad
	}
	base := len(r.memory.open)
	at, c := space(r.data, at+1)
	for more := c != ']'; more; {
		var f Field
		if f.Value, at = r.value(at, depth); at < 0 {
			return v, bad
		}
		r.memory.open = append(r.memory.open, f)
		if at, c = space(r.data, at); c == ',' {
			at++
		} else {
			more = false
		}
	}
	if c != ']' {
		return v, bad
	}
	return ListValue(r.memory.keep(base)), at + 1
}

// number reads a number as JSON's grammar has it, and keeps its literal.
func (r *jsonReader) number(start int) (v Value, end int) {
	at := start
	next := func(of string) bool {
		if at < len(r.data) && strings.IndexByte(of, r.data[at]) >= 0 {
			at++
			return true
		}
		return false
	}
	digits := func() int {
		start := at
		for at < len(r.data) && r.data[at]-'0' <= 9 {
			at++
		}
		return at - start
	}
	next("-")
	whole := at
	if n := digits(); n == 0 || n > 1 && r.data[whole] == '0' {
		return v, bad
	}
	if next(".") && digits() == 0 {
		return v, bad
	}
	if next("eE") {
		next("+-")
		if digits() == 0 {
			return v, bad
		}
	}
	return NumberValue(r.text[start:at]), at
}

// str reads the string, a value or a member's name, whose quote is at. Most strings end
// at the first byte that is not plain, which is looked for here, without a call.
func (r *jsonReader) str(at int) (s string, end int) {
	data, start := r.data, at+1
	for end = start; end+8 <= len(data); end += 8 {
		if found := notPlain(data[end : end+8]); found != 0 {
			if end += bits.TrailingZeros64(found) / 8; data[end] == '"' {
				return r.text[start:end], end + 1
			}
			break
		}
	}
	return r.special(start, end)
}

// special reads on, from at, in the string that begins at start and has a byte that a
// string cannot just hold.
func (r *jsonReader) special(start, at int) (s string, end int) {
	escaped := false
	for at = plainUntil(r.data, at); at < len(r.data); at = plainUntil(r.data, at) {
		switch c := r.data[at]; {
		case c == '"':
			s := r.text[start:at]
			if !utf8.ValidString(s) {
				return "", bad
			}
			if !escaped {
				return s, at + 1
			}
			unquoted, err := jsontext.AppendUnquote(nil, r.data[start-1:at+1])
			if err != nil {
				return "", bad
			}
			return string(unquoted), at + 1
		case c == '\\':
			escaped = true
			at += 2 // whatever it is, it does not end the string
		case c >= utf8.RuneSelf:
			at++
		default:
			return "", bad
		}
	}
	return "", bad
}

// plainUntil is where, from at on, the next byte is that a string cannot just hold: a
// quote, a backslash, a control character, or one that is not ASCII.
func plainUntil(data []byte, at int) int {
	for ; at+8 <= len(data); at += 8 {
		if found := notPlain(data[at : at+8]); found != 0 {
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

// notPlain has the highest bits set of those of eight bytes that a string cannot just
// hold. A byte that is 0, or less than the space, borrows from its highest bit: later bytes
// may be mistaken, the first one never is.
func notPlain(eight []byte) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	x := binary.LittleEndian.Uint64(eight)
	quote, slash := x^'"'*ones, x^'\\'*ones
	return (x | (quote - ones) | (slash - ones) | (x - ' '*ones)) & high
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
	case e.Offset < int64(len(data)) && isSurrogate(data[e.Offset:]):
		e.Rule = "an escape is half of a surrogate pair, such as of an emoji that the producer has cut"
	}
	return e
}

// isSurrogate reports whether an escape from \ud800 to \udfff is there.
func isSurrogate(at []byte) bool {
	return len(at) > 3 && at[0] == '\\' && at[1] == 'u' && at[2]|0x20 == 'd' && strings.IndexByte("89abcdefABCDEF", at[3]) >= 0
}
