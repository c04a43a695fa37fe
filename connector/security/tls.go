package security

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// TLSFiles are paths of PEM files; each may be empty.
type TLSFiles struct {
	CAFile   string // authorities to trust instead of the system's
	CertFile string // with KeyFile: the certificate to show
	KeyFile  string
}

// FileError is a file that cannot be used. Key is the field of Files, as a
// configuration spells it.
type FileError struct {
	Key  string // caFile, certFile or keyFile
	File string
	Err  error
}

// Error reads as a path: key, file, cause. What is in the file is not shown.
func (e *FileError) Error() string { return e.Key + ": " + e.Err.Error() }

// Unwrap is the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Check reads the files and lists what cannot be used, at once; every element
// is about one file. A certificate without its key, or a key without its
// certificate, cannot be used.
func (f TLSFiles) Check() (found []*FileError) {
	note := func(err error) {
		if e, ok := errors.AsType[*FileError](err); ok {
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

func missing(key, given string) *FileError {
	return &FileError{Key: key, Err: errors.New("is required with " + given)}
}

func read(key, name string) ([]byte, error) {
	data, err := ReadFile(name, maxFile)
	if err != nil {
		return nil, &FileError{key, name, err}
	}
	return data, nil
}

// file is a path and the key of the configuration that names it.
type file struct{ key, path string }

func readAll(files []file) ([][]byte, error) {
	data := make([][]byte, len(files))
	for i, f := range files {
		if f.path == "" {
			return nil, missing(f.key, files[1-i].key) // a pair
		}
		var err error
		if data[i], err = read(f.key, f.path); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// authorities follow CAFile.
func (f TLSFiles) authorities() *followed[*x509.CertPool] {
	return &followed[*x509.CertPool]{
		files: []file{{"caFile", f.CAFile}},
		parse: func(data [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(data[0]) {
				return nil, &FileError{"caFile", f.CAFile, fmt.Errorf("%s: holds no certificate in PEM form", f.CAFile)}
			}
			return pool, nil
		},
	}
}

// pair follows CertFile and KeyFile.
func (f TLSFiles) pair() *followed[*tls.Certificate] {
	return &followed[*tls.Certificate]{
		files: []file{{"certFile", f.CertFile}, {"keyFile", f.KeyFile}},
		parse: func(data [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(data[0], data[1])
			if err != nil {
				return nil, &FileError{"certFile", f.CertFile, fmt.Errorf("%s: is no certificate that belongs to keyFile: %w", f.CertFile, err)}
			}
			return &pair, nil
		},
	}
}

// TLSClient is the calling side. It may be used concurrently.
type TLSClient struct {
	authorities *followed[*x509.CertPool]   // nil: the system's
	pair        *followed[*tls.Certificate] // nil: none is shown
}

// NewTLSClient reads the files for the first time; an error is a *FileError. Files
// that later cannot be used are told to log, and what they held before goes on
// being used.
func NewTLSClient(files TLSFiles, log *slog.Logger) (c *TLSClient, err error) {
	c = &TLSClient{}
	if files.CAFile != "" {
		if c.authorities, err = files.authorities().begin(log); err != nil {
			return nil, err
		}
	}
	if files.CertFile != "" || files.KeyFile != "" {
		if c.pair, err = files.pair().begin(log); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Config is for one connection, or for some that are made soon: the authorities
// are those of now, by the same pointer while they have not changed, and the certificate
// is that of the handshake.
func (c *TLSClient) Config() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.authorities != nil {
		config.RootCAs, _ = c.authorities.get() // they could be read once, and so always can be
	}
	if c.pair != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.pair.get() }
	}
	return config
}

const dialTimeout = 10 * time.Second // of a connection with its handshake

// Dial connects to host:port. The other side must show a certificate for that
// host.
func (c *TLSClient) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: c.Config()}
	return dialer.DialContext(ctx, network, address)
}

// followed is what some files mean, as they are when it is asked for. While they
// cannot be used, perhaps because only one of two has been replaced yet, it is
// what they meant before.
//
// The files are read each time, which happens once for a connection, and only
// understood anew when they hold something else: there is no clock of a file
// system that could be too coarse to show a change.
type followed[T any] struct {
	files []file
	parse func([][]byte) (T, error)
	log   *slog.Logger // nil: not logged

	mu    sync.Mutex
	seen  [sha256.Size]byte // of what value was made of
	value T
	ok    bool // there is a value
	// before is what value replaced at replaced, which is zero if it replaced nothing.
	before   T
	replaced time.Time
	bad      bool // the files could not be used when last looked at
}

// begin reads the files for the first time.
func (f *followed[T]) begin(log *slog.Logger) (*followed[T], error) {
	f.log = log
	_, err := f.get()
	return f, err
}

// get is the value of now. Its error is that there has never been one.
func (f *followed[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := readAll(f.files)
	if err == nil {
		sum := sumOf(data)
		if f.ok && sum == f.seen {
			f.bad = false
			return f.value, nil
		}
		var value T
		if value, err = f.parse(data); err == nil {
			if f.ok {
				f.before, f.replaced = f.value, time.Now()
			}
			f.value, f.seen, f.ok, f.bad = value, sum, true, false
			return value, nil
		}
	}
	if !f.ok {
		return f.value, err
	}
	f.complain(err)
	return f.value, nil
}

// within are the value of now and, for a time after it took its place, the one
// before. Like get it fails only if there has never been one.
func (f *followed[T]) within(grace time.Duration) ([]T, error) {
	value, err := f.get()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replaced.IsZero() || time.Since(f.replaced) > grace {
		return []T{value}, nil
	}
	return []T{value, f.before}, nil
}

// complain tells once of files that have become unusable. mu is held.
func (f *followed[T]) complain(err error) {
	if !f.bad && f.log != nil {
		f.log.Warn("changed TLS files cannot be used; what they held before stays in use until they can", "error", err)
	}
	f.bad = true
}

// sumOf tells contents apart without keeping a private key's text.
func sumOf(data [][]byte) [sha256.Size]byte {
	all := sha256.New()
	for _, d := range data {
		one := sha256.Sum256(d)
		all.Write(one[:])
	}
	return [sha256.Size]byte(all.Sum(nil))
}

// lookEvery is how long changed authorities may go unnoticed by a Transport:
// looking at the file costs more than a request's own work.
const lookEvery = time.Second

// Transport is an http.RoundTripper whose new connections trust and show what
// the files hold. It may be used concurrently.
//
// http.Transport fixes the authorities when it is first used. So when they
// change, a new one takes its place, and the old one ends with the requests that
// it has begun.
type Transport struct {
	client *TLSClient
	tuned  *http.Transport // never used itself
	build  func(*http.Transport) Connections

	mu      sync.RWMutex
	looked  time.Time
	current Connections
	roots   *x509.CertPool // of current
}

// Connections make calls over connections that they keep.
type Connections interface {
	http.RoundTripper
	CloseIdleConnections()
}

// Transport makes connections as tuned would, but for TLS. tuned is not used
// itself and must not be changed any more.
func (c *TLSClient) Transport(tuned *http.Transport) *Transport {
	return c.TransportOver(tuned, func(t *http.Transport) Connections { return t })
}

// TransportOver is Transport with what build makes of the http.Transport.
func (c *TLSClient) TransportOver(tuned *http.Transport, build func(*http.Transport) Connections) *Transport {
	return &Transport{client: c, tuned: tuned, build: build}
}

// RoundTrip is http.RoundTripper's.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.now().RoundTrip(r)
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
}

func (t *Transport) now() Connections {
	now := time.Now()
	t.mu.RLock()
	current, looked := t.current, t.looked
	t.mu.RUnlock()
	if current != nil && now.Sub(looked) < lookEvery {
		return current
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked = now
	config := t.client.Config()
	if t.current != nil && t.roots == config.RootCAs {
		return t.current
	}
	next := t.tuned.Clone()
	next.TLSClientConfig = config
	if t.current != nil {
		t.current.CloseIdleConnections()
	}
	t.current, t.roots = t.build(next), config.RootCAs
	return t.current
}

// TLSServer is the answering side, which shows CertFile. It may be used concurrently.
type TLSServer struct{ pair *followed[*tls.Certificate] }

// NewTLSServer reads the files for the first time; an error is a *FileError. CAFile has
// no part in it. Files that later cannot be used are told to log, and what they
// held before goes on being shown.
func NewTLSServer(files TLSFiles, log *slog.Logger) (*TLSServer, error) {
	pair, err := files.pair().begin(log)
	if err != nil {
		return nil, err
	}
	return &TLSServer{pair}, nil
}

// Config is for answering. The certificate is that of each handshake.
func (s *TLSServer) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.get() },
	}
}

// renewing is how long after a renewal a process may still show the certificate
// of before: a kubelet takes up to two minutes to put a changed Secret into the
// files of its pods. A key that was withdrawn because it was stolen is good
// for no longer than that.
const renewing = 10 * time.Minute

// Siblings is for calling processes that show the same certificate as this one.
// They are known by its key and not by a name that an authority vouches for.
// Such processes are found by the addresses of pods, which no certificate
// names; and an authority vouches for many others, while the key is theirs alone:
// the side that ends the handshake has it.
//
// For ten minutes after a renewal the key of before is taken as well. The other
// way round a sibling that has been renewed first stays unknown until this
// process' own files have changed, unless the renewal kept the key.
func (s *TLSServer) Siblings() *tls.Config {
	return pinned(func() ([]*x509.Certificate, error) {
		pairs, err := s.pair.within(renewing)
		if err != nil {
			return nil, err
		}
		known := make([]*x509.Certificate, len(pairs))
		for i, pair := range pairs {
			known[i] = pair.Leaf
		}
		return known, nil
	})
}

// Pinned is for calling the process that shows the certificate in certFile, by
// whatever name it is reached; an error is a *FileError. The file is read once, and
// the key that belongs to it is not needed.
func Pinned(certFile string) (*tls.Config, error) {
	data, err := read("certFile", certFile)
	if err != nil {
		return nil, err
	}
	leaf, err := firstCertificate(data)
	if err != nil {
		return nil, &FileError{"certFile", certFile, fmt.Errorf("%s: %w", certFile, err)}
	}
	return pinned(func() ([]*x509.Certificate, error) { return []*x509.Certificate{leaf}, nil }), nil
}

// firstCertificate is the one that a server shows as its own; those after it lead
// to its authority.
func firstCertificate(data []byte) (*x509.Certificate, error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil, errors.New("holds no certificate in PEM form")
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}

// pinned believes only the holder of the key of a known certificate.
func pinned(known func() ([]*x509.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // names and authorities; VerifyConnection asks for the key, and the handshake proves that the other side has it
		VerifyConnection: func(state tls.ConnectionState) error {
			certificates, err := known()
			if err != nil {
				return err
			}
			for _, c := range certificates {
				if bytes.Equal(c.RawSubjectPublicKeyInfo, state.PeerCertificates[0].RawSubjectPublicKeyInfo) {
					return nil
				}
			}
			return errors.New("the other side shows a certificate with another key than the one known here")
		},
	}
}
