package security_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/security"
	"github.com/feedsink/feedsink/test/certs"
)

// peer is a TLS server whose certificate can be replaced, and which remembers
// who called last.
type peer struct {
	*httptest.Server
	shown  atomic.Pointer[tls.Certificate]
	caller atomic.Pointer[string] // common name, "" without a certificate
	proto  atomic.Pointer[string]
}

func newPeer(t *testing.T, shown certs.Pair) *peer {
	t.Helper()
	p := &peer{}
	p.show(t, shown)
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		name := ""
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		p.caller.Store(&name)
		p.proto.Store(&r.Proto)
	}))
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	p.EnableHTTP2 = true
	p.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.shown.Load(), nil },
	}
	p.StartTLS()
	p.TLS.Certificates = nil // httptest's own, which would come first
	t.Cleanup(p.Close)
	return p
}

func (p *peer) show(t *testing.T, pair certs.Pair) {
	t.Helper()
	cert := pair.TLS(t)
	p.shown.Store(&cert)
}

// world is a peer and the files of somebody who calls it.
type world struct {
	files security.TLSFiles
	peer  *peer
	log   bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{files: security.TLSFiles{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
	}}
	first := certs.NewAuthority(t, "first")
	certs.Write(t, w.files.CAFile, first.PEM)
	w.bear(t, first.Issue(t, "one"))
	w.peer = newPeer(t, first.Issue(t, "server", "127.0.0.1"))
	return w
}

func (w *world) bear(t *testing.T, pair certs.Pair) {
	t.Helper()
	certs.Write(t, w.files.CertFile, pair.Cert)
	certs.Write(t, w.files.KeyFile, pair.Key)
}

func (w *world) client(t *testing.T) *security.TLSClient {
	t.Helper()
	c, err := security.NewTLSClient(w.files, slog.New(slog.NewTextHandler(&w.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handshake connects once, and says who the peer thinks called.
func (w *world) handshake(t *testing.T, c *security.TLSClient) (caller string, err error) {
	t.Helper()
	conn, err := c.Dial(t.Context(), "tcp", w.peer.Listener.Addr().String())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	if _, err := io.ReadAll(conn); err != nil {
		return "", err
	}
	return *w.peer.caller.Load(), nil
}

func TestDialFollowsCertificateAndAuthority(t *testing.T) {
	w := newWorld(t)
	client := w.client(t)
	if got, err := w.handshake(t, client); err != nil || got != "one" {
		t.Fatalf("first handshake: got %q, %v, want one", got, err)
	}
	second := certs.NewAuthority(t, "second")
	w.peer.show(t, second.Issue(t, "server", "127.0.0.1"))
	if _, err := w.handshake(t, client); err == nil {
		t.Error("a peer of an authority nobody named: got no error")
	}
	certs.Write(t, w.files.CAFile, second.PEM)
	w.bear(t, second.Issue(t, "two"))
	if got, err := w.handshake(t, client); err != nil || got != "two" {
		t.Errorf("after both files changed: got %q, %v, want two", got, err)
	}
}

func TestDialWantsTheHostsCertificate(t *testing.T) {
	w := newWorld(t)
	authority := certs.NewAuthority(t, "first")
	certs.Write(t, w.files.CAFile, authority.PEM)
	w.peer.show(t, authority.Issue(t, "server", "127.0.0.2", "elsewhere"))
	if _, err := w.handshake(t, w.client(t)); err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("another host's certificate: got %v, want an error that names 127.0.0.1", err)
	}
}

func TestFilesThatCannotBeUsedLeaveTheOldOnes(t *testing.T) {
	w := newWorld(t)
	client := w.client(t)
	other := certs.NewAuthority(t, "other").Issue(t, "two")
	for range 3 {
		certs.Write(t, w.files.CertFile, other.Cert) // its key is still to come
		certs.Write(t, w.files.CAFile, []byte("half a"))
		if got, err := w.handshake(t, client); err != nil || got != "one" {
			t.Errorf("amid a change: got %q, %v, want one", got, err)
		}
	}
	if got := strings.Count(w.log.String(), "cannot be used"); got != 2 {
		t.Errorf("told %d times, want once for each of certificate and authority:\n%s", got, &w.log)
	}
	certs.Write(t, w.files.KeyFile, other.Key)
	if got, err := w.handshake(t, client); err != nil || got != "two" {
		t.Errorf("after the change: got %q, %v, want two", got, err)
	}
}

func TestTransportFollowsAuthorityAndCertificate(t *testing.T) {
	w := newWorld(t)
	for name, tuned := range map[string]*http.Transport{"HTTP/2.0": {ForceAttemptHTTP2: true}, "HTTP/1.1": {DisableKeepAlives: true}} {
		t.Run(name, func(t *testing.T) {
			authority := certs.NewAuthority(t, "first")
			certs.Write(t, w.files.CAFile, authority.PEM)
			w.bear(t, authority.Issue(t, "one"))
			w.peer.show(t, authority.Issue(t, "server", "127.0.0.1"))
			transport := w.client(t).Transport(tuned)
			client := http.Client{Transport: transport}
			call := func() (caller string, err error) {
				resp, err := client.Get(w.peer.URL)
				if err != nil {
					return "", err
				}
				return *w.peer.caller.Load(), resp.Body.Close()
			}
			if got, err := call(); err != nil || got != "one" {
				t.Fatalf("first call: got %q, %v, want one", got, err)
			}
			if got := *w.peer.proto.Load(); got != name {
				t.Errorf("protocol: got %s, want %s", got, name)
			}
			next := certs.NewAuthority(t, "next")
			w.peer.show(t, next.Issue(t, "server", "127.0.0.1"))
			certs.Write(t, w.files.CAFile, next.PEM)
			w.bear(t, next.Issue(t, "two"))
			security.Overdue(transport)
			if got, err := call(); err != nil || got != "two" {
				t.Errorf("after the change: got %q, %v, want two", got, err)
			}
			transport.CloseIdleConnections()
		})
	}
}

func TestTransportLooksOnceASecond(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		transport := w.client(t).Transport(&http.Transport{})
		first := security.Now(transport)
		certs.Write(t, w.files.CAFile, certs.NewAuthority(t, "next").PEM)
		if security.Now(transport) != first {
			t.Error("within the second: got a new transport, want the old one")
		}
		time.Sleep(time.Second)
		second := security.Now(transport)
		if second == first {
			t.Error("after a second: got the old transport, want a new one")
		}
		time.Sleep(time.Second)
		if security.Now(transport) != second {
			t.Error("with nothing changed: got a new transport, want the same")
		}
	})
}

func TestErrorsNameKeyAndFile(t *testing.T) {
	dir := t.TempDir()
	pair, other := certs.NewAuthority(t, "a").Issue(t, "one"), certs.NewAuthority(t, "b").Issue(t, "two")
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		certs.Write(t, path, content)
		return path
	}
	cert, key, wrong := file("cert.pem", pair.Cert), file("key.pem", pair.Key), file("other.pem", other.Key)
	none, huge := filepath.Join(dir, "none.pem"), file("huge.pem", bytes.Repeat([]byte("secret"), 1<<20))
	for _, c := range []struct {
		files security.TLSFiles
		want  []string // the beginning of each error
	}{
		{security.TLSFiles{}, nil},
		{security.TLSFiles{CAFile: cert, CertFile: cert, KeyFile: key}, nil},
		{security.TLSFiles{CAFile: none}, []string{"caFile: stat " + none}},
		{security.TLSFiles{CAFile: key}, []string{"caFile: " + key + ": holds no certificate"}},
		{security.TLSFiles{CAFile: dir}, []string{"caFile: " + dir + ": not a regular file"}},
		{security.TLSFiles{CAFile: huge}, []string{"caFile: " + huge + ": larger than"}},
		{security.TLSFiles{CertFile: cert}, []string{"keyFile: is required with certFile"}},
		{security.TLSFiles{KeyFile: key}, []string{"certFile: is required with keyFile"}},
		{security.TLSFiles{CertFile: none, KeyFile: none}, []string{"certFile: stat " + none, "keyFile: stat " + none}},
		{security.TLSFiles{CAFile: none, CertFile: cert, KeyFile: wrong}, []string{"caFile: stat " + none, "certFile: " + cert + ": is no certificate that belongs to keyFile"}},
	} {
		got := c.files.Check()
		if len(got) != len(c.want) {
			t.Errorf("%+v: got %v, want %q", c.files, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i].Error(), want) || strings.Contains(got[i].Error(), "secret") {
				t.Errorf("%+v: got %v, want %q", c.files, got[i], want)
			}
		}
		if _, err := security.NewTLSClient(c.files, nil); (err == nil) != (len(c.want) == 0) {
			t.Errorf("%+v: NewClient: got %v, want an error where Check has one", c.files, err)
		}
	}
}
