package config

import "testing"

func TestExpand(t *testing.T) {
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"A": "1", "EMPTY": "", "SELF": "${SELF}"}[name]
		return value, ok
	}
	for text, want := range map[string]string{
		"":                 "",
		"plain $A $":       "plain $A $",
		"${A}":             "1",
		"x${A}y${A}":       "x1y1",
		"${B:-two words}":  "two words",
		"${B:-}":           "",
		"${EMPTY}":         "",
		"${EMPTY:-filled}": "filled",
		"$${A}":            "${A}",
		"$$${A}":           "$${A}",
		"${SELF}":          "${SELF}",
		"${B}":             "error: the environment variable B is not set",
		"${A":              "error: ${ without }",
		"${1A}":            `error: not a variable's name: "${1A}"`,
		"${}":              `error: not a variable's name: "${}"`,
		"${A-1}":           `error: not a variable's name: "${A-1}"`,
	} {
		got, err := expand(text, env)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
