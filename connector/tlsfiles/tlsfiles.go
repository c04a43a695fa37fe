// Package tlsfiles makes TLS of PEM files and follows them: what is trusted and
// shown is what the files hold when a connection is made, so that a renewed
// certificate or authority is taken up without a restart.
//
// It knows files, handshakes and HTTP connections. It knows nothing about who is
// called, and nothing about Kafka, the service or configuration.
package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"
)

// Files are paths of PEM files; each may be empty.
type Files struct {
	CAFile   string // authorities to trust instead of the system's
	CertFile string // with KeyFile: the certificate to show
	KeyFile  string
}

// Error is a file that cannot be used. Key is the field of Files, as a
// configuration spells it.
type Error struct {
	Key  string // caFile, certFile or keyFile
	File string
	Err  error
}

// Error reads as a path: key, file, cause. What is in the file is not shown.
func (e *Error) Error() string { return e.Key + ": " + e.Err.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Check reads the files and lists what cannot be used, at once; every element
// is about one file. A certificate without its key, or a key without its
// certificate, cannot be used.
func (f Files) Check() (found []*Error) {
	note := func(err error) {
		if e, ok := errors.AsType[*Error](err); ok {
			found = append(found, e)
		}
	}
	if f.CAFile != "" {
		_, err := f.authorities().get()
		note(err)
	}
	switch {
	case f.CertFile == "" && f.KeyFile == "":
		return found
	case f.KeyFile == "":
		return append(found, missing("keyFile", "certFile"))
	case f.CertFile == "":
		return append(found, missing("certFile", "keyFile"))
	}
	_, certErr := read("certFile", f.CertFile)
	_, keyErr := read("keyFile", f.KeyFile)
	note(certErr)
	note(keyErr)
	if certErr == nil && keyErr == nil {
		_, err := f.pair().get()
		note(err)
	}
	return found
}

func missing(key, given string) *Error {
	return &Error{Key: key, Err: errors.New("is required with " + given)}
}

// maxFile bounds what is read: the authorities of a whole system are a quarter
// of it.
const maxFile = 1 << 20

func read(key, name string) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, &Error{key, name, err} }
	// Stat before reading: opening a pipe would block until someone writes.
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return fail(err)
	case !info.Mode().IsRegular():
		return fail(fmt.Errorf("%s: not a regular file", name))
	case info.Size() > maxFile:
		return fail(fmt.Errorf("%s: larger than %d MiB", name, maxFile>>20))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return fail(err)
	}
	return data, nil
}

// authorities follow CAFile.
func (f Files) authorities() *followed[*x509.CertPool] {
	return &followed[*x509.CertPool]{
		read: func() ([][]byte, error) {
			data, err := read("caFile", f.CAFile)
			return [][]byte{data}, err
		},
		parse: func(data [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(data[0]) {
				return nil, &Error{"caFile", f.CAFile, fmt.Errorf("%s: holds no certificate in PEM form", f.CAFile)}
			}
			return pool, nil
		},
	}
}

// pair follows CertFile and KeyFile.
func (f Files) pair() *followed[*tls.Certificate] {
	return &followed[*tls.Certificate]{
		read: func() ([][]byte, error) {
			switch {
			case f.CertFile == "":
				return nil, missing("certFile", "keyFile")
			case f.KeyFile == "":
				return nil, missing("keyFile", "certFile")
			}
			cert, err := read("certFile", f.CertFile)
			if err != nil {
				return nil, err
			}
			key, err := read("keyFile", f.KeyFile)
			return [][]byte{cert, key}, err
		},
		parse: func(data [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(data[0], data[1])
			if err != nil {
				return nil, &Error{"certFile", f.CertFile, fmt.Errorf("%s: is no certificate that belongs to keyFile: %w", f.CertFile, err)}
			}
			return &pair, nil
		},
	}
}

// Client is the calling side. It may be used concurrently.
type Client struct {
	authorities *followed[*x509.CertPool]   // nil: the system's
	pair        *followed[*tls.Certificate] // nil: none is shown
}

// NewClient reads the files for the first time; an error is an *Error. Files
// that later cannot be used are told to log, and what they held before goes on
// being used.
func NewClient(files Files, log *slog.Logger) (*Client, error) {
	c := &Client{}
	if files.CAFile != "" {
		c.authorities = files.authorities()
		c.authorities.log = log
		if _, err := c.authorities.get(); err != nil {
			return nil, err
		}
	}
	if files.CertFile != "" || files.KeyFile != "" {
		c.pair = files.pair()
		c.pair.log = log
		if _, err := c.pair.get(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Config is for one connection, or for some that are made soon: the authorities
// are those of now, the certificate that of the handshake.
func (c *Client) Config() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.roots()}
	if c.pair != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.pair.get() }
	}
	return config
}

// roots are the authorities of now, nil for the system's. The same pointer
// means that they have not changed.
func (c *Client) roots() *x509.CertPool {
	if c.authorities == nil {
		return nil
	}
	roots, _ := c.authorities.get() // they could be read once, and so always can be
	return roots
}

const dialTimeout = 10 * time.Second // of a connection with its handshake

// Dial connects to host:port. The other side must show a certificate for that
// host.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: c.Config()}
	return dialer.DialContext(ctx, network, address)
}
