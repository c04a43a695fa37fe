package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
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

// GoString hides the text from %#v.
func (s Secret) GoString() string { return redacted }

// Format hides the text from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText hides the text from the encoders of JSON, YAML and text logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Key gives the API key as it is now: the one in the file of that name, read
// again on every call, or the one in the configuration.
func (s Service) Key() func() (Secret, error) {
	if s.APIKeyFile != "" {
		return SecretFile(s.APIKeyFile)
	}
	return func() (Secret, error) { return s.APIKey, nil }
}

// Password gives the SASL password as it is now; a zero Secret when none is
// configured.
func (s SASL) Password() func() (Secret, error) { return optional(s.PasswordFile) }

// ClientSecret gives the OAuth client's secret as it is now; a zero Secret when
// none is configured.
func (o OAuth) ClientSecret() func() (Secret, error) { return optional(o.ClientSecretFile) }

// Token gives the token in TokenFile as it is now; a zero Secret when none is
// configured.
func (o OAuth) Token() func() (Secret, error) { return optional(o.TokenFile) }

// Login gives the registry's user and password as they are now: those of the
// file, or else of the address. nil when neither has any.
func (s SchemaRegistry) Login() func() (user string, password Secret, err error) {
	if s.Username != "" {
		read := optional(s.PasswordFile)
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

// Secret gives the webhook's shared secret as it is now; a zero Secret when
// none is configured.
func (w Webhook) Secret() func() (Secret, error) { return optional(w.SecretFile) }

// Token gives the admin server's token as it is now; a zero Secret when none is
// configured.
func (a Admin) Token() func() (Secret, error) { return optional(a.TokenFile) }

func optional(path string) func() (Secret, error) {
	if path == "" {
		return func() (Secret, error) { return Secret{}, nil }
	}
	return SecretFile(path)
}

// SecretFile gives the secret in the file at path as it is at each call, so
// that a rotated secret is found without a restart. White space around it is
// not part of it. The function may be called concurrently.
//
// A secret is asked for rarely (a token every quarter of an hour, a new
// connection, a webhook), so the file is simply read again: there is no copy
// that could outlive a change the file's clock was too coarse to show.
func SecretFile(path string) func() (Secret, error) {
	return func() (Secret, error) {
		// Stat before Open: opening a pipe would block until someone writes.
		info, err := os.Stat(path)
		if err != nil {
			return Secret{}, fmt.Errorf("read secret: %w", err)
		}
		if !info.Mode().IsRegular() {
			return Secret{}, fmt.Errorf("read secret: %s: not a regular file", path)
		}
		data, err := readBounded(path)
		if err != nil {
			return Secret{}, fmt.Errorf("read secret: %w", err)
		}
		text := strings.TrimSpace(string(data))
		if text == "" {
			return Secret{}, fmt.Errorf("read secret: %s: the file is empty", path)
		}
		// It becomes a header or a handshake: a control character in it can
		// only be a mistake, and would be refused far from here.
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return Secret{}, fmt.Errorf("read secret: %s: more than one line, or a control character", path)
		}
		return NewSecret(text), nil
	}
}

func readBounded(path string) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err == nil && len(data) > maxSecretBytes {
		err = fmt.Errorf("%s: larger than %d KiB", path, maxSecretBytes>>10)
	}
	return data, err
}
