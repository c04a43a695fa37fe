package samples

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/feedsink/feedsink/router/problem"
)

// withKeys adds to an error about an unknown key which keys there are, or which is meant.
func withKeys(text []byte, err error) error {
	unknown, ok := errors.AsType[*yaml.UnknownFieldError](err)
	if !ok || unknown.Token == nil {
		return err
	}
	at := unknown.Token.Position
	keys := keysAt(text, at.Line, at.Column)
	if len(keys) == 0 {
		return err
	}
	hint := problem.Similar(unknown.Token.Value, keys...)
	if hint == "" {
		hint = "the keys here are " + strings.Join(keys, ", ")
	}
	return fmt.Errorf("[%d:%d] unknown key %q; %s", at.Line, at.Column, unknown.Token.Value, hint)
}

// keysAt are those of the block at a place: the file's, or those of a table or an event;
// none where the file is written in a way that does not show it.
func keysAt(text []byte, line, column int) []string {
	if column == 1 {
		return keysOf(reflect.TypeFor[Samples]())
	}
	lines := strings.Split(string(text), "\n")
	for i := min(line, len(lines)) - 1; i >= 0; i-- {
		switch {
		case strings.HasPrefix(lines[i], "tables:"):
			return keysOf(reflect.TypeFor[Table]())
		case strings.HasPrefix(lines[i], "events:"):
			return keysOf(reflect.TypeFor[Event]())
		case lines[i] != "" && !strings.ContainsAny(lines[i][:1], " -#\r"):
			return nil
		}
	}
	return nil
}

// keysOf are the keys of a struct's fields, in their order.
func keysOf(t reflect.Type) (keys []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			keys = append(keys, keysOf(f.Type)...)
			continue
		}
		keys = append(keys, f.Tag.Get("yaml"))
	}
	return keys
}
