package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// decoder fills the configuration from nodes and notes where each path stands.
// It goes on after a problem, leaving the default in place.
type decoder struct {
	*findings
	env       func(string) (string, bool)
	noSecrets bool // variables of secrets need not be set
}

var (
	errUnclosed     = errors.New("${ without }")
	errVariableName = errors.New("not a variable's name")
	variableName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	durationText    = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)
)

// unsetError is a variable, by its name, that has neither value nor default.
type unsetError string

func (e unsetError) Error() string { return "the environment variable " + string(e) + " is not set" }

// value fills into from n. A value that is left empty keeps the default.
func (d *decoder) value(path string, n *node, into reflect.Value) {
	if n.kind != scalar || wantsBlock(into.Type()) {
		d.block(path, n, into)
		return
	}
	text, ok := d.scalar(path, n, into.Type())
	plain := n.plain || text != n.text && wantsPlain(into.Kind())
	if !ok || plain && isNothing(text) && !meansNull(text, into) {
		return
	}
	if message, hint := parseScalar(text, plain, into.Addr().Interface()); message != "" {
		at := d.places[path]
		if at.written != "" {
			message += ", is " + d.written(path, "")
		}
		d.unreadable(at, path, message, hint)
	}
}

// scalar notes the place of a scalar, what variables put into it, and gives its text
// with environment variables replaced.
func (d *decoder) scalar(path string, n *node, of reflect.Type) (text string, ok bool) {
	p, secret := n.place, of == reflect.TypeFor[Secret]()
	// An address may carry a password, and a file's content be where its path belongs.
	hidden := secret || of == reflect.TypeFor[Address]() || strings.HasSuffix(path, "File")
	if !hidden {
		p.written = n.text
	}
	d.places[path] = p
	text, err := expand(n.text, func(name string) (string, bool) {
		content, set := d.env(name)
		d.filled = append(d.filled, filled{path, name, content})
		return content, set
	})
	if err == nil {
		return text, true
	}
	message, hint := err.Error(), "write $${ where ${ itself is meant"
	if unset, ok := errors.AsType[unsetError](err); ok {
		if secret && d.noSecrets {
			return string(unset), true
		}
		hint = "set it, or write ${" + string(unset) + ":-default}"
	} else if hidden || strings.Contains(n.text, "@") {
		message = "a ${…} that cannot be read" // what is in it may be the secret
	}
	d.unreadable(p, path, message, hint)
	return "", false
}

// isNothing reports whether an unquoted scalar is YAML's null, or was written
// as a variable that is empty.
func isNothing(text string) bool {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// meansNull reports whether the word null is a choice here, and no sign of
// something left empty.
func meansNull(text string, into reflect.Value) bool {
	return text == string(router.AsNull) && into.Type() == reflect.TypeFor[router.Missing]()
}

// wantsPlain reports whether a value of this kind is written without quotes, unless it is
// a variable: within { } and [ ] those need quotes.
func wantsPlain(k reflect.Kind) bool {
	switch k {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return true
	}
	return false
}

// wantsBlock reports whether a value of this type is written as a list or as
// keys.
func wantsBlock(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return t != reflect.TypeFor[Secret]() && t != reflect.TypeFor[Address]()
	case reflect.Slice, reflect.Pointer:
		return true
	}
	return false
}

// block fills a list, an object or a pointer to one from n.
func (d *decoder) block(path string, n *node, into reflect.Value) {
	if _, known := d.places[path]; !known {
		d.places[path] = n.place
	}
	if n.kind == scalar && d.shorthand(path, n, into) {
		return
	}
	switch {
	case into.Kind() == reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		d.value(path, n, into.Elem())
	case into.Kind() == reflect.Slice && n.kind == list:
		into.Set(reflect.MakeSlice(into.Type(), len(n.items), len(n.items)))
		for i, item := range n.items {
			d.item(index(path, i), item, into.Index(i))
		}
	case into.Kind() == reflect.Struct && n.kind == object && wantsBlock(into.Type()):
		d.object(path, n, into)
	default:
		d.mismatch(path, n, into)
	}
}

// shorthand handles a scalar where a block is expected: nothing at all, and the
// bare name of a column.
func (d *decoder) shorthand(path string, n *node, into reflect.Value) bool {
	if n.plain && isNothing(n.text) {
		return true
	}
	if column, ok := reflect.TypeAssert[*router.Column](into.Addr()); ok {
		if text, ok := d.scalar(path, n, reflect.TypeFor[string]()); ok {
			column.Name = text
		}
		return true
	}
	return false
}

// item fills one element of a list, which starts from its type's defaults.
func (d *decoder) item(path string, n *node, into reflect.Value) {
	if mapping, ok := reflect.TypeAssert[*router.Mapping](into.Addr()); ok {
		*mapping = mappingDefaults()
	}
	if n.kind == scalar && n.plain && isNothing(n.text) && !d.unread[path] {
		d.unreadable(n.place, path, "an empty element", "write a value or remove the element")
		return
	}
	d.value(path, n, into)
}

// object fills a struct key by key.
func (d *decoder) object(path string, n *node, into reflect.Value) {
	for _, e := range n.entries {
		below := join(path, e.key)
		at := slices.Index(keysOf(into.Type()), e.key)
		if at < 0 {
			hint, meant := suggest(path, e.key, into.Type())
			if meant != "" && n.find(meant) < 0 {
				d.unread[join(path, meant)] = true // misspelt is not also missing
			}
			d.unreadable(e.place, below, "unknown key", hint)
			continue
		}
		field := into.Field(at)
		if e.value.kind != scalar || wantsBlock(field.Type()) {
			d.places[below] = e.place
		}
		d.value(below, e.value, field)
	}
}

// mismatch reports a list, block or single value where another is wanted.
func (d *decoder) mismatch(path string, n *node, into reflect.Value) {
	wanted, hint := scalar, ""
	switch {
	case n.kind == list && into.Kind() == reflect.String:
		hint = hintBrackets
	case into.Kind() == reflect.Slice:
		wanted = list
		if n.kind == scalar {
			hint = "write " + listOf(withoutLogin(n.text))
		}
	case wantsBlock(into.Type()):
		wanted, hint = object, "its keys are "+strings.Join(keysOf(into.Type()), ", ")
	}
	message := "must be " + wanted.String() + ", is " + n.kind.String()
	d.unreadable(n.place, path, message, hint)
}

// listOf is a list of one value, or of those between commas, as it can be written on a line.
func listOf(text string) string {
	if strings.ContainsAny(text, "{}[]#'\"") {
		text = strconv.Quote(text)
	}
	return "[" + text + "]"
}

// expand replaces ${NAME} and ${NAME:-default} in a scalar. As in a shell, the
// default stands in for a variable that is unset or empty. $${ is a literal ${;
// any other dollar sign is itself. The error says what is wrong without any
// variable's content.
//
// It works on values the YAML parser has already cut out, so that nothing in a
// variable can add a key to the file.
func expand(text string, env func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), nil
		}
		if literal, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(literal + "${")
			text = rest
			continue
		}
		b.WriteString(before)
		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errUnclosed
		}
		name, otherwise, hasDefault := strings.Cut(inner, ":-")
		if !variableName.MatchString(name) {
			return "", fmt.Errorf("%w: %s", errVariableName, quote("${"+inner+"}"))
		}
		value, set := env(name)
		switch {
		case hasDefault && value == "":
			value = otherwise
		case !set && !hasDefault:
			return "", unsetError(name)
		}
		b.WriteString(value)
		text = after
	}
}

// parseScalar sets the value that into points to. It answers with the rule
// that text breaks, and a hint.
func parseScalar(text string, plain bool, into any) (message, hint string) {
	switch into := into.(type) {
	case *string:
		*into = text
	case *router.Missing:
		*into = router.Missing(text)
	case *router.Literal:
		*into = literal(text, plain)
	case *Secret:
		*into = NewSecret(strings.TrimSpace(text)) // as of a secret in a file
	case *Address:
		*into = NewAddress(text)
	case *time.Duration:
		return parseDuration(text, into)
	case *router.Bytes:
		return parseBytes(text, into)
	case *bool:
		return parseBool(text, plain, into)
	case *float64:
		return parseFraction(text, plain, into)
	case *int:
		return parseInt(text, plain, into)
	case *int64:
		return parseInt(text, plain, into)
	default:
		// A new type in the configuration without a way to read it: every test
		// that loads a file with it ends here.
		panic("config: no way to read a " + reflect.TypeOf(into).String())
	}
	return "", ""
}

// literal is a constant as YAML reads it: without quotes, true, false and
// numbers are what they look like.
func literal(text string, plain bool) router.Literal {
	if v, err := schemas.NewJSON().Decode([]byte(text)); plain && err == nil && v.Kind() != schemas.String {
		return router.Literal(v.AppendJSON(nil))
	}
	return router.Literal(schemas.StringValue(text).AppendJSON(nil))
}

func parseDuration(text string, into *time.Duration) (message, hint string) {
	// Sums of two and more are computed with, and instants that far away: none is beyond what they hold.
	const longest = 876_000 * time.Hour
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d.Abs() <= longest:
		*into = d
		return "", ""
	case err == nil || durationText.MatchString(text):
		return "must be a duration of at most 876000h", "that is a hundred years"
	}
	if _, err := strconv.ParseUint(text, 10, 32); err == nil {
		return "must be a duration with a unit", "write " + text + "s for seconds"
	}
	return "must be a duration", "write 30s; the units are ms, s, m and h"
}

func parseBytes(text string, into *router.Bytes) (message, hint string) {
	size, err := router.ParseBytes(text)
	if err != nil {
		return "must be a size", "write 128MiB; the units are KiB, MiB, GiB and TiB, or kB, MB, GB and TB"
	}
	*into = size
	return "", ""
}

func parseBool(text string, plain bool, into *bool) (message, hint string) {
	const rule = "must be true or false"
	if !plain {
		return rule, "write it without quotes"
	}
	switch text {
	case "true", "True", "TRUE":
		*into = true
	case "false", "False", "FALSE":
		*into = false
	default:
		return rule, ""
	}
	return "", ""
}

func parseFraction(text string, plain bool, into *float64) (message, hint string) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !plain {
		return "must be a number", "write it without quotes, such as 0.05"
	}
	*into = v
	return "", ""
}

func parseInt[T int | int64](text string, plain bool, into *T) (message, hint string) {
	const rule = "must be a whole number"
	v, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || int64(T(v)) != v:
		return "must be a whole number of at most 64 bits", ""
	case err != nil:
		return rule, "write digits, such as 16"
	case !plain:
		return rule, "write it without quotes"
	}
	*into = T(v)
	return "", ""
}

// join is the path of a key below path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index is the path of an element of the list at path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// keysOf are the keys of a struct's fields, in their order. Every field of a
// configuration struct has one.
func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = t.Field(i).Tag.Get("yaml")
	}
	return keys
}

// suggest is the hint for an unknown key below path: the key of the block that
// it looks like, else the place where a key of that name belongs, else what
// the block has. Meant is the key of this block that it looks like, or "".
func suggest(path, key string, block reflect.Type) (hint, meant string) {
	keys := keysOf(block)
	closest, distance := "", max(len(key)/3, 1)+1
	for _, known := range keys {
		if d := problem.Edits(plainKey(key), plainKey(known)); d < distance {
			closest, distance = known, d
		}
	}
	if closest != "" {
		return "did you mean " + join(path, closest) + "?", closest
	}
	if elsewhere := search(reflect.TypeFor[Config](), "", plainKey(key)); len(elsewhere) == 1 {
		return "did you mean " + elsewhere[0] + "?", ""
	}
	return "the keys here are " + strings.Join(keys, ", "), ""
}

// plainKey is a key without what is easily confused: case, - and _.
func plainKey(key string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
}

// search lists the paths of all keys of that name in the whole file.
func search(t reflect.Type, path, key string) (found []string) {
	switch {
	case t.Kind() == reflect.Pointer:
		return search(t.Elem(), path, key)
	case t.Kind() == reflect.Slice:
		return search(t.Elem(), path+"[]", key)
	case t.Kind() != reflect.Struct || !wantsBlock(t):
		return nil
	}
	for i, name := range keysOf(t) {
		below := join(path, name)
		if plainKey(name) == key {
			found = append(found, below)
		}
		found = append(found, search(t.Field(i).Type, below, key)...)
	}
	return found
}
