package admin

import (
	"crypto/tls"
	"os"
	"sync"
	"time"
)

// keyPair is a certificate with its key, read again when one of the files has
// changed. While the new ones cannot be used, perhaps because only one of them
// has been replaced yet, the old ones are.
type keyPair struct {
	certFile, keyFile string

	mu   sync.Mutex
	seen [2]version // of the files when they were last read
	pair *tls.Certificate
}

// version tells a file from what it was before.
type version struct {
	changed time.Time
	size    int64
}

// get is the certificate for the next handshake. Its error is that there has
// never been a usable one.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := [2]version{versionOf(k.certFile), versionOf(k.keyFile)}
	if k.pair != nil && now == k.seen {
		return k.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	switch {
	case err == nil:
		k.pair, k.seen = &pair, now
	case k.pair == nil:
		return nil, err
	}
	return k.pair, nil
}

// versionOf is zero for a file that cannot be looked at.
func versionOf(file string) version {
	info, err := os.Stat(file)
	if err != nil {
		return version{}
	}
	return version{info.ModTime(), info.Size()}
}
