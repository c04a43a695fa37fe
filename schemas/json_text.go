package schemas

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// str reads the string whose quote is next.
func (p *plainReader) str() (string, bool) {
	start := p.at
	p.at++
	if p.pass(); p.next('"') {
		p.at++
		return p.text[start+1 : p.at-1], true
	}
	return p.special(start)
}

// special reads on in the string that began at start and has a byte that a string
// cannot just hold.
func (p *plainReader) special(start int) (string, bool) {
	escaped, wide := false, false
	for {
		p.pass()
		if p.at >= len(p.data) {
			return "", false
		}
		switch c := p.data[p.at]; {
		case c == '"':
			p.at++
			s := p.text[start+1 : p.at-1]
			if wide && !utf8.ValidString(s) {
				return "", false
			}
			if !escaped {
				return s, true
			}
			unquoted, err := jsontext.AppendUnquote(nil, p.data[start:p.at])
			return string(unquoted), err == nil
		case c == '\\':
			escaped = true
			p.at += 2 // whatever it is, it does not end the string
		case c >= utf8.RuneSelf:
			wide = true
			p.at++
		default:
			return "", false
		}
	}
}

// pass goes on to the next byte that a string cannot just hold: a quote, a
// backslash, a control character, or one that is not ASCII.
func (p *plainReader) pass() {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(p.data)-p.at >= 8 {
		x := binary.LittleEndian.Uint64(p.data[p.at:])
		// A byte that is 0, or less than the space, borrows from its highest bit.
		// Later bytes may be mistaken, the first one never is.
		quote, slash := x^'"'*ones, x^'\\'*ones
		found := (x | (quote-ones)&^quote | (slash-ones)&^slash | (x-' '*ones)&^x) & high
		if found != 0 {
			p.at += bits.TrailingZeros64(found) / 8
			return
		}
		p.at += 8
	}
	for ; p.at < len(p.data); p.at++ {
		if c := p.data[p.at]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return
		}
	}
}
