package service

import (
	"fmt"
	"io"
	"strings"
)

const redacted = "[redacted]"

// Secret is a text that prints as "[redacted]" through every verb of fmt, in
// JSON, YAML and logs, also from inside an unexported field. The zero Secret is
// empty.
type Secret struct {
	// A pointer, because fmt and slog print unexported strings as they are
	// without asking their methods, but of a nested pointer only the address.
	text *string
}

// NewSecret holds text without the white space around it: files tend to end
// with a line break, which no HTTP header may carry.
func NewSecret(text string) Secret {
	text = strings.TrimSpace(text)
	return Secret{text: &text}
}

// Reveal is the text itself, for the header it is sent in.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String hides the text.
func (s Secret) String() string { return redacted }

// Format hides the text from every verb, also those no string takes.
func (s Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// MarshalText hides the text from JSON, YAML and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
