package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// join is the path of a key below path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index is the path of an element of the list at path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// fieldOf is the field of a struct that has the key.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i, name := range keysOf(v.Type()) {
		if name == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

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
		if d := edits(plainKey(key), plainKey(known)); d < distance {
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

// plainKey is a key without what is often confused: case, - and _.
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

// edits is the number of letters to insert, remove, change or swap with their
// neighbour to get from a to b. Keys are short: the full table is small.
func edits(a, b string) int {
	row := func() []int { return make([]int, len(b)+1) }
	older, last, current := row(), row(), row()
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			current[j] = slices.Min([]int{change, last[j] + 1, current[j-1] + 1})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], older[j-2]+1)
			}
		}
		older, last, current = last, current, older
	}
	return last[len(b)]
}
