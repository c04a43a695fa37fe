package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// node is one value of the file with its position: a list, an object or a
// scalar. Anchors, aliases and merge keys are resolved; environment variables
// and types are not, they depend on the key a value stands under.
type node struct {
	place
	kind    kind
	text    string // of a scalar
	plain   bool   // a scalar without quotes: it may be a number, a boolean or nothing
	items   []*node
	entries []entry
}

type kind uint8

const (
	scalar kind = iota
	list
	object
)

// String names the kind as a message does.
func (k kind) String() string { return [...]string{"a single value", "a list", "a block of keys"}[k] }

// entry is one key of an object.
type entry struct {
	key string
	place
	value  *node
	merged bool // by <<: an entry written out replaces it
}

// reader turns the YAML library's syntax tree into nodes.
type reader struct {
	*findings
	anchors map[string]*node
}

// read parses the file. It answers nil after reporting why there is nothing to
// look at: a syntax error hides everything after it, so it stands alone.
func read(f *findings, data []byte) *node {
	data = []byte(strings.TrimPrefix(string(data), "\ufeff"))
	if at, ok := validText(data); !ok {
		f.add(at, "", "not UTF-8 text", "save the file as UTF-8")
		return nil
	}
	all := tokens(data)
	if at, deep := tooDeep(all); deep {
		f.add(at, "", fmt.Sprintf("nested more than %d deep", mostDeep), "a closing bracket may be missing")
		return nil
	}
	file, err := parser.Parse(all, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.syntax(err, data)
		return nil
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		f.add(place{line: 1, column: 1}, "", "the file is empty", "start with kafka:, service: and mappings:")
		return nil
	case 1:
		return (&reader{findings: f, anchors: map[string]*node{}}).node("", bodies[0])
	default:
		f.add(start(bodies[1]), "", "a second YAML document", "write one document per file, without ---")
		return nil
	}
}

// validText finds the first byte that is not UTF-8.
func validText(data []byte) (at place, ok bool) {
	at = place{line: 1, column: 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			return at, false
		}
		if at.column++; r == '\n' {
			at = place{line: at.line + 1, column: 1}
		}
		data = data[size:]
	}
	return at, true
}

// bareBracket finds a path such as items[0] that stands without quotes in { }.
var bareBracket = regexp.MustCompile(`\{[^'"]*[[:word:]]\[`)

// hintBrackets is for text that YAML takes for a list.
const hintBrackets = "put text with [ ] in quotes: 'items[0].sku'"

// syntax reports what the YAML library could not read. Its own text is not
// used whole: that quotes the lines around the mistake, which may hold a key.
func (f *findings) syntax(err error, data []byte) {
	p, message, hint := place{line: 1, column: 1}, "not readable as YAML", ""
	if detail, ok := errors.AsType[yaml.Error](err); ok {
		said, _, _ := strings.Cut(detail.GetMessage(), "\n")
		if option, bad := strings.CutPrefix(said, "invalid header option"); bad && option != "" { // it quotes the value
			said, hint = "invalid header option", "put text that begins with | or > in quotes"
		}
		message = "not readable as YAML: " + said
		p = position(detail.GetToken())
	}
	lines := strings.Split(string(data), "\n")
	if p.line <= len(lines) {
		switch text := lines[p.line-1]; {
		case strings.HasPrefix(strings.TrimLeft(text, " "), "\t"):
			hint = "indent with spaces, not tabs"
		case bareBracket.MatchString(text):
			hint = hintBrackets
		case strings.Contains(message, "not allowed in this context"):
			hint = "check how far this line, and those around it, are indented; put a value that holds \": \" or \" #\" in quotes"
		}
	}
	f.add(p, "", message, hint)
}

// ${NAME} without quotes is plain text, except inside of { } and [ ], where YAML
// gives braces a meaning. While the file is cut into tokens, and no longer, the braces
// of variables are therefore characters that no text may contain.
var (
	variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}\n]*)?\}`)
	mask     = strings.NewReplacer("{", "\ufdd0", "}", "\ufdd1")
	unmask   = strings.NewReplacer("\ufdd0", "{", "\ufdd1", "}")
)

func tokens(data []byte) token.Tokens {
	all := lexer.Tokenize(variable.ReplaceAllStringFunc(string(data), mask.Replace))
	for _, t := range all {
		t.Value = unmask.Replace(t.Value)
	}
	return all
}

// mostDeep bounds what can be nested on a line: of brackets the library takes memory by the
// square of their number.
const mostDeep = 100

// tooDeep finds the bracket, or the dash on one line, that is one too many.
func tooDeep(all token.Tokens) (at place, deep bool) {
	brackets, dashes, line := 0, 0, 0
	for _, t := range all {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType:
			dashes++
		}
		if brackets+dashes > mostDeep {
			return position(t), true
		}
	}
	return place{}, false
}

// position is where a token stands, at least 1:1.
func position(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{line: 1, column: 1}
	}
	return place{line: max(t.Position.Line, 1), column: max(t.Position.Column, 1)}
}

// start is where a value begins. The library's token of a block of keys is the
// first colon in it.
func start(n ast.Node) place {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return start(n.Values[0])
		}
	case *ast.MappingValueNode:
		return position(n.Key.GetToken())
	}
	return position(n.GetToken())
}

// node converts one value. Path is only for the problems found on the way.
func (r *reader) node(path string, from ast.Node) *node {
	n := &node{place: start(from)}
	switch from := from.(type) {
	case *ast.AnchorNode:
		n = r.node(path, from.Value)
		// Known only from here on, so that no alias can contain itself.
		r.anchors[from.Name.String()] = n
	case *ast.AliasNode:
		if found := r.anchors[from.Value.String()]; found != nil {
			return found
		}
		r.unreadable(n.place, path,
			"the alias has no anchor before it", "write &NAME in front of the value that *NAME repeats, or put text that begins with * in quotes")
		n.plain = true // nothing: the default stays
	case *ast.TagNode:
		r.unreadable(n.place, path,
			"YAML tags are not supported", "remove the tag, or put text that begins with ! in quotes")
		n.plain = true
	case *ast.MappingNode:
		r.entries(path, n, from.Values)
	case *ast.MappingValueNode:
		r.entries(path, n, []*ast.MappingValueNode{from})
	case *ast.SequenceNode:
		n.kind = list
		for i, item := range from.Values {
			if text, glued := gluedPair(from, item); glued {
				n.items = append(n.items, &node{place: start(item), text: text, plain: true})
				continue
			}
			n.items = append(n.items, r.node(index(path, i), item))
		}
	case *ast.LiteralNode:
		n.text = from.Value.GetToken().Value
	case *ast.StringNode:
		n.text, n.plain = from.Value, from.GetToken().Type == token.StringType
		if n.plain && strings.Contains(strings.TrimSpace(from.GetToken().Origin), "\t") { // the library drops it
			r.unreadable(n.place, path, "a tab within text that is not in quotes", "put the text in quotes")
		}
	case *ast.NullNode:
		n.plain = true
		if from.GetToken().Type == token.NullType { // written, not left out
			n.text = from.GetToken().Value
		}
	default: // numbers, booleans, .inf and the like, as they are written
		n.text, n.plain = from.GetToken().Value, true
	}
	return n
}

// gluedPair is an item like host:9092 of a list in brackets. YAML has it as one
// text, since no space follows the colon; the library takes it for a key and its
// value where the brackets stand inside of braces.
func gluedPair(list *ast.SequenceNode, item ast.Node) (text string, glued bool) {
	pair, ok := item.(*ast.MappingNode)
	if !ok || !list.IsFlowStyle || pair.IsFlowStyle || len(pair.Values) != 1 {
		return "", false
	}
	key, value := pair.Values[0].Key.GetToken(), pair.Values[0].Value.GetToken()
	colon := key.Position.Column + utf8.RuneCountInString(key.Value)
	if key.Indicator == token.QuotedScalarIndicator || value.Position.Line != key.Position.Line || value.Position.Column != colon+1 {
		return "", false
	}
	return key.Value + ":" + value.Value, true
}

// entries fills n with keys and values. A key given twice is reported and the
// first one kept.
func (r *reader) entries(path string, n *node, values []*ast.MappingValueNode) {
	n.kind = object
	for _, value := range values {
		if value.Key.IsMergeKey() {
			r.merge(path, n, r.node(path, value.Value))
			continue
		}
		name := keyText(value.Key)
		e := entry{key: name, place: position(value.Key.GetToken()), value: r.node(join(path, name), value.Value)}
		switch at := n.find(name); {
		case at < 0:
			n.entries = append(n.entries, e)
		case n.entries[at].merged:
			n.entries[at] = e
		default:
			r.add(e.place, join(path, name), "the key is given twice", "remove one of them")
		}
	}
}

// merge adds the entries of from, a block of keys or a list of them, that n
// does not have.
func (r *reader) merge(path string, n, from *node) {
	sources := []*node{from}
	if from.kind == list {
		sources = from.items
	}
	for _, source := range sources {
		if source.kind != object {
			r.add(source.place, path, "<< takes blocks of keys, not "+source.kind.String(),
				"write <<: *NAME with an anchor on a block of keys")
		}
		for _, e := range source.entries {
			if n.find(e.key) < 0 {
				e.merged = true
				n.entries = append(n.entries, e)
			}
		}
	}
}

func (n *node) find(key string) int {
	return slices.IndexFunc(n.entries, func(e entry) bool { return e.key == key })
}

// keyText is a key as it is written, so that null and 12 are keys too.
func keyText(key ast.MapKeyNode) string {
	if key, ok := key.(*ast.MappingKeyNode); ok {
		return key.Value.GetToken().Value
	}
	return key.GetToken().Value
}
