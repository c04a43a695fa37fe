package config

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/feedsink/feedsink/connector/security"
)

// maxSecretBytes bounds what is read as a secret, so that a path to something
// else (a log, a core dump) is refused rather than sent as a header.
const maxSecretBytes = 64 << 10

const redacted = "[redacted]"

// Secret is text that no log, error, dump or encoder may show. The text hangs
// on a pointer because fmt prints unexported fields of other structs without
// asking their methods: what it can reach there is an address.
type Secret struct{ text *string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal is the one way to the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String hides the text.
func (s Secret) String() string { return redacted }

// Format hides the text from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText hides the text from the encoders of JSON, YAML and text logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Key gives the API key as it is now: the one in the file of that name, read
// again on every call, or the one in the configuration.
func (s Service) Key() func() (Secret, error) {
	if s.APIKeyFile != "" {
		return SecretFile(s.APIKeyFile)
	}
	return func() (Secret, error) { return s.APIKey, nil }
}

// Login gives the registry's user and password as they are now: those of the
// file, or else of the address. nil when neither has any.
func (s SchemaRegistry) Login() func() (user string, password Secret, err error) {
	if s.Username != "" {
		read := SecretFile(s.PasswordFile)
		return func() (string, Secret, error) {
			password, err := read()
			return s.Username, password, err
		}
	}
	user := s.URL.user()
	if user == nil {
		return nil
	}
	text, _ := user.Password()
	password := NewSecret(text)
	return func() (string, Secret, error) { return user.Username(), password, nil }
}

// SecretFile gives the secret in the file at path as it is at each call, so
// that a rotated secret is found without a restart. A byte order mark and white space around
// it are not part of it. Without a path it is the zero Secret. The function may be called
// concurrently.
//
// A secret is asked for rarely (a token every quarter of an hour, a new
// connection, a webhook), so the file is simply read again: there is no copy
// that could outlive a change the file's clock was too coarse to show.
func SecretFile(path string) func() (Secret, error) {
	return func() (Secret, error) {
		if path == "" {
			return Secret{}, nil
		}
		data, err := security.ReadFile(path, maxSecretBytes)
		if err != nil {
			return Secret{}, fmt.Errorf("read secret: %w", err)
		}
		text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
		if text == "" {
			return Secret{}, fmt.Errorf("read secret: %s: the file is empty", path)
		}
		// It becomes a header or a handshake: a control character in it can
		// only be a mistake, and would be refused far from here.
		if !isVisible(text) {
			return Secret{}, fmt.Errorf("read secret: %s: more than one line, or a control character", path)
		}
		return NewSecret(text), nil
	}
}

// Address is a URL that may carry a user and a password, which no log, error,
// dump or encoder may show. It is hidden as a Secret is.
type Address struct{ text *string }

// NewAddress wraps text, whatever it is; "" is the zero Address.
func NewAddress(text string) Address {
	if text == "" {
		return Address{}
	}
	return Address{text: &text}
}

// Reveal is the address as it was written.
func (a Address) Reveal() string {
	if a.text == nil {
		return ""
	}
	return *a.text
}

// IsZero reports whether there is none.
func (a Address) IsZero() bool { return a.Reveal() == "" }

// String is the address without user and password; "" where it cannot be told
// what they are.
func (a Address) String() string {
	u, err := url.Parse(a.Reveal())
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

func (a Address) user() *url.Userinfo {
	u, err := url.Parse(a.Reveal())
	if err != nil {
		return nil
	}
	return u.User
}

// Format hides user and password from every verb.
func (a Address) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.String()) }

// MarshalText hides user and password from the encoders of JSON, YAML and text
// logs.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
