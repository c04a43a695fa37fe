package config

import (
	"fmt"
	"strings"
)

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
		if !variableName(name) {
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

// variableName reports whether name is a letter or underscore followed by
// letters, digits and underscores.
func variableName(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
