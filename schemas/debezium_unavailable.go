package schemas

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"strconv"
)

// DefaultUnavailable is what Debezium writes in the place of a large value that
// did not change and is therefore not in the database's log, unless its
// unavailable.value.placeholder says otherwise.
const DefaultUnavailable = "__debezium_unavailable_value"

// placeholder recognises that text in each of the forms that columns of
// different types give it.
type placeholder struct {
	text   string
	base64 string   // columns of bytes
	pairs  string   // hstore as JSON
	uuid   string   // the one element of a list of UUIDs
	bytes  []string // the elements of a list of whole numbers: a literal for each byte
}

func newPlaceholder(text string) *placeholder {
	p := &placeholder{
		text:   text,
		base64: base64.StdEncoding.EncodeToString([]byte(text)),
		pairs:  string(ObjectValue([]Field{{Name: text, Value: StringValue(text)}}).AppendJSON(nil)),
	}
	// As Java makes a UUID of a name: version 3 without a name space.
	sum := md5.Sum([]byte(text))
	sum[6], sum[8] = sum[6]&0x0f|0x30, sum[8]&0x3f|0x80
	p.uuid = fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:])
	for i := range len(text) {
		p.bytes = append(p.bytes, strconv.Itoa(int(text[i])))
	}
	return p
}

// stands reports whether v, the value of a column, is the placeholder.
func (p *placeholder) stands(v Value) bool {
	switch v.kind {
	case String:
		return v.Text() == p.text || v.Text() == p.base64 || v.Text() == p.pairs
	case Object: // hstore as a map
		return len(v.Items()) == 1 && v.Items()[0].Name == p.text && v.Items()[0].Value.Text() == p.text
	case List:
		if len(v.Items()) == 1 && v.Items()[0].Value.kind == String {
			text := v.Items()[0].Value.Text()
			return text == p.text || text == p.base64 || text == p.uuid
		}
		return p.spelt(v.Items())
	}
	return false
}

func (p *placeholder) spelt(items []Field) bool {
	if len(items) != len(p.bytes) {
		return false
	}
	for i := range items {
		if items[i].Value.kind != Number || items[i].Value.Text() != p.bytes[i] {
			return false
		}
	}
	return true
}
