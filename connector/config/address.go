package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
)

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

// Bare is the address without user and password; "" where it cannot be told
// what they are.
func (a Address) Bare() string {
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

// String is Bare.
func (a Address) String() string { return a.Bare() }

// GoString hides user and password from %#v.
func (a Address) GoString() string { return a.Bare() }

// Format hides user and password from every verb.
func (a Address) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.Bare()) }

// MarshalText hides user and password from the encoders of JSON, YAML and text
// logs.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.Bare()), nil }

// LogValue hides user and password from slog.
func (a Address) LogValue() slog.Value { return slog.StringValue(a.Bare()) }
