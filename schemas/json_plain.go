package schemas

// maxPlain is how many members an object may have to be read here: each name is
// compared with those before it, which is quick as long as they are few.
const maxPlain = 64

// plain reads a JSON text in one pass, straight into members. Ok is false for
// whatever is not clearly good: then the token reader decides, from the start,
// what the text is and what is wrong with it. So every rule and every error has
// one place, and good records cost a third.
func (d *JSON) plain(data []byte) (v Value, ok bool) {
	p := plainReader{data: data, text: d.text.record, memory: &d.memory}
	v, ok = p.value(0)
	if p.space(); !ok || p.at < len(data) {
		d.memory.again()
		return Value{}, false
	}
	return v, true
}

// plainReader is at a place in a text.
type plainReader struct {
	data   []byte
	text   string // the same
	at     int
	memory *memory
}

// space passes white space and returns what is behind it, 0 at the end. Mostly
// there is none.
func (p *plainReader) space() byte {
	if p.at < len(p.data) && p.data[p.at] > ' ' {
		return p.data[p.at]
	}
	return p.spaces()
}

func (p *plainReader) spaces() byte {
	for ; p.at < len(p.data); p.at++ {
		switch c := p.data[p.at]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

func (p *plainReader) value(depth int) (Value, bool) {
	switch p.space() {
	case '"':
		s, ok := p.str()
		return StringValue(s), ok
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.list(depth + 1)
	case 't':
		return BoolValue(true), p.word("true")
	case 'f':
		return BoolValue(false), p.word("false")
	case 'n':
		return NullValue(), p.word("null")
	}
	return p.number()
}

func (p *plainReader) word(w string) bool {
	if len(p.text)-p.at < len(w) || p.text[p.at:p.at+len(w)] != w {
		return false
	}
	p.at += len(w)
	return true
}

// object reads an object whose brace is next, and compares each name with those
// before it.
func (p *plainReader) object(depth int) (v Value, ok bool) {
	p.at++
	base := len(p.memory.open)
	if depth > MaxDepth {
		return v, false
	}
	if p.space() == '}' {
		p.at++
		return ObjectValue(nil), true
	}
	for seen := uint64(0); ; {
		if p.space() != '"' {
			return v, false
		}
		var f Field
		if f.Name, ok = p.str(); !ok || !p.fresh(&seen, base, f.Name) || p.space() != ':' {
			return v, false
		}
		p.at++
		if f.Value, ok = p.value(depth); !ok {
			return v, false
		}
		p.memory.open = append(p.memory.open, f)
		switch p.space() {
		case ',':
			p.at++
		case '}':
			p.at++
			return ObjectValue(p.memory.keep(base)), true
		default:
			return v, false
		}
	}
}

// mark is a name's length and last letter, as a bit.
func mark(name string) uint64 {
	n := uint(len(name))
	if n > 0 {
		n += 5 * uint(name[n-1])
	}
	return 1 << (n & 63)
}

// fresh reports whether the object that began at base has no member of the name.
// Seen has the marks of its names so far, and spares most of the comparing.
func (p *plainReader) fresh(seen *uint64, base int, name string) bool {
	members := p.memory.open[base:]
	bit := mark(name)
	if *seen&bit == 0 {
		*seen |= bit
		return len(members) < maxPlain
	}
	for i := range members {
		if members[i].Name == name {
			return false
		}
	}
	return len(members) < maxPlain
}

// list reads a list whose bracket is next.
func (p *plainReader) list(depth int) (v Value, ok bool) {
	p.at++
	base := len(p.memory.open)
	if depth > MaxDepth {
		return v, false
	}
	if p.space() == ']' {
		p.at++
		return ListValue(nil), true
	}
	for {
		var f Field
		if f.Value, ok = p.value(depth); !ok {
			return v, false
		}
		p.memory.open = append(p.memory.open, f)
		switch p.space() {
		case ',':
			p.at++
		case ']':
			p.at++
			return ListValue(p.memory.keep(base)), true
		default:
			return v, false
		}
	}
}

// number reads a number as JSON's grammar has it, and keeps its literal.
func (p *plainReader) number() (v Value, ok bool) {
	start := p.at
	if p.next('-') {
		p.at++
	}
	whole := p.at
	if n := p.digits(); n == 0 || n > 1 && p.data[whole] == '0' {
		return v, false
	}
	if p.next('.') {
		p.at++
		if p.digits() == 0 {
			return v, false
		}
	}
	if p.next('e') || p.next('E') {
		p.at++
		if p.next('+') || p.next('-') {
			p.at++
		}
		if p.digits() == 0 {
			return v, false
		}
	}
	return NumberValue(p.text[start:p.at]), true
}

func (p *plainReader) next(c byte) bool { return p.at < len(p.data) && p.data[p.at] == c }

// digits passes digits and counts them.
func (p *plainReader) digits() int {
	start := p.at
	for p.at < len(p.data) && p.data[p.at]-'0' <= 9 {
		p.at++
	}
	return p.at - start
}
