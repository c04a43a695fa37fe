package schemas

import "strings"

// Bounds of what a decoder remembers of names. A hostile record can fill them,
// not exceed them.
const (
	maxNames     = 256     // members
	maxNamesText = 8 << 10 // bytes of them all
	maxNameText  = 256     // bytes of one
	maxLook      = 6       // how many a member is compared with
)

// Between two learnings lie at least as many records that were not as expected.
const (
	minNamesPause = 64
	maxNamesPause = 4096
)

// expected is a member that an object has had. A place in an object, before its
// first member or behind one, is a list of them: what has followed there, linked
// by other, the last learnt first.
type expected struct {
	raw   string // from the brace, or the value before, to the first byte of the value
	name  string // a part of raw, without escapes
	next  *expected
	inner *expected // the first members of the objects that its value is or has
	other *expected
}

// names is what a decoder remembers of the objects in its records: nearly all
// records of a topic have the same names in the same order, written the same way.
// Comparing them with what is expected is quicker than reading them, and proves
// that no two are the same:
//
// The members on a path along next are the first ones of an object in a record that
// was good, in its order. So those of an object that are all found further and
// further on one path are distinct too, even if some are left out.
type names struct {
	first   *expected // the first members of a record
	members int       // that are known
	text    int       // bytes of them
	full    bool      // the next learning begins anew
	useful  bool      // a record was as expected since the last learning
	unknown int       // records that were not, since
	pause   int
}

// met counts a good record, and learns from it if it is time to.
func (n *names) met(p *plainReader) {
	if !p.strange {
		n.useful = true
		return
	}
	if n.unknown++; n.unknown < max(n.pause, 2) { // many a decoder has one record only
		return
	}
	n.pause = min(max(2*n.pause, minNamesPause), maxNamesPause)
	if n.useful {
		n.pause = minNamesPause
	}
	if n.full {
		*n = names{pause: n.pause}
	}
	n.useful, n.unknown = false, 0
	p.at = 0
	n.value(p, &n.first)
}

// value learns from a value. The reader's text is known to be good.
func (n *names) value(p *plainReader, at **expected) {
	switch p.space() {
	case '{':
		n.object(p, at)
	case '[':
		n.list(p, at)
	default:
		p.value(0, nil)
	}
}

func (n *names) object(p *plainReader, at **expected) {
	for p.at++; !n.full; {
		start := p.at
		switch p.space() {
		case '}':
			p.at++
			return
		case ',':
			p.at++
			p.space()
		}
		name, _ := p.str()
		p.space()
		p.at++
		p.space()
		e := n.learn(at, p.text[start:p.at], name)
		if e == nil { // what follows it must not be taken for what follows the one before
			n.value(p, nil)
			at = nil
			continue
		}
		n.value(p, &e.inner)
		at = &e.next
	}
}

func (n *names) list(p *plainReader, at **expected) {
	for p.at++; !n.full; {
		switch p.space() {
		case ']':
			p.at++
			return
		case ',':
			p.at++
		default:
			n.value(p, at)
		}
	}
}

// learn puts a member in front of what is expected at a place.
func (n *names) learn(at **expected, raw, name string) *expected {
	if at == nil || len(raw) > maxNameText || strings.IndexByte(raw, '\\') >= 0 {
		return nil
	}
	for link := at; *link != nil; link = &(*link).other {
		if e := *link; e.raw == raw {
			*link = e.other
			e.other, *at = *at, e
			return e
		}
	}
	if n.members == maxNames || n.text+len(raw) > maxNamesText {
		n.full = true
		return nil
	}
	n.members++
	n.text += len(raw)
	raw = strings.Clone(raw) // nothing holds the text of records past
	quote := strings.IndexByte(raw, '"') + 1
	e := &expected{raw: raw, name: raw[quote : quote+len(name)], other: *at}
	*at = e
	return e
}

// expectFirst passes the text up to the value of an object's first member, if that
// is one of those expected.
func (p *plainReader) expectFirst(at *expected) *expected {
	for look := 0; at != nil && look < maxLook; look++ {
		if p.word(at.raw) {
			return at
		}
		at = at.other
	}
	return nil
}

// expectNext passes the text from behind a value to the next member's, if that is
// one of those expected or one that follows them.
func (p *plainReader) expectNext(at *expected) *expected {
	for look := 0; at != nil; at = at.next {
		for e := at; e != nil; e = e.other {
			if p.word(e.raw) {
				return e
			}
			if look++; look == maxLook {
				return nil
			}
		}
	}
	return nil
}
