package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
)

// What reading an answer leniently is made of; tolerant.go says where it is.

// parse reads exactly one JSON value, numbers as they are written.
func parse(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errNoJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoJSON
	}
	return v, nil
}

// member is the member of that name; failing that, of that name but for case,
// '_' and '-' (of several, the first in order, so that an answer always means
// the same); nil if there is none.
func member(object map[string]any, name string) any {
	if v, ok := object[name]; ok {
		return v
	}
	wanted, found := plain(name), ""
	for candidate := range object {
		if plain(candidate) == wanted && (found == "" || candidate < found) {
			found = candidate
		}
	}
	return object[found]
}

// plain is a name in lower case without anything but letters and digits.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}

// scalar is a text or number as text; "" for everything else.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// add does not overflow: the numbers come from outside.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// raw is a value as JSON, numbers as they were written.
func raw(v any) json.RawMessage {
	text, _ := json.Marshal(v) // it was read from JSON
	return text
}
