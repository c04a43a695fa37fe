package certs

import (
	"path/filepath"
	"testing"
)

// ExampleFiles writes the files that the configurations in deploy/examples name,
// into the folder that stands for their FEEDSINK_SECRETS: one text for whatever is
// secret, and certificates for this machine by the authority that it returns.
func ExampleFiles(tb testing.TB, dir, secret string) *Authority {
	tb.Helper()
	for _, name := range []string{"api-key", "kafka-password", "kafka-client-secret", "registry-password", "webhook-secret", "admin-token"} {
		Write(tb, filepath.Join(dir, name), []byte(secret+"\n"))
	}
	authority := NewAuthority(tb, "authority")
	for _, name := range []string{"kafka-ca.pem", "internal-ca.pem"} {
		Write(tb, filepath.Join(dir, name), authority.PEM)
	}
	for _, name := range []string{"kafka", "service", "admin"} {
		pair := authority.Issue(tb, name, "127.0.0.1")
		Write(tb, filepath.Join(dir, name+".crt"), pair.Cert)
		Write(tb, filepath.Join(dir, name+".key"), pair.Key)
	}
	return authority
}
