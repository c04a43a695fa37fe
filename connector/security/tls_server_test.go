package security_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/security"
	"github.com/feedsink/feedsink/test/certs"
)

func server(t *testing.T, files security.TLSFiles) *security.TLSServer {
	t.Helper()
	s, err := security.NewTLSServer(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServerFollowsItsCertificate(t *testing.T) {
	w := newWorld(t)
	config := server(t, w.files).Config()
	shown := func() string {
		t.Helper()
		cert, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.Subject.CommonName
	}
	if got := shown(); got != "one" {
		t.Errorf("at first: got %q, want one", got)
	}
	w.bear(t, certs.NewAuthority(t, "next").Issue(t, "two"))
	if got := shown(); got != "two" {
		t.Errorf("after the change: got %q, want two", got)
	}
}

func TestOldProtocolsAreRefused(t *testing.T) {
	w := newWorld(t)
	for side, config := range map[string]*tls.Config{"client": w.client(t).Config(), "server": server(t, w.files).Config()} {
		if config.MinVersion != tls.VersionTLS12 || config.InsecureSkipVerify {
			t.Errorf("%s: got version %x, insecure %t, want at least TLS 1.2 and a check", side, config.MinVersion, config.InsecureSkipVerify)
		}
	}
	if siblings := server(t, w.files).Siblings(); siblings.MinVersion != tls.VersionTLS12 || siblings.VerifyConnection == nil {
		t.Errorf("siblings: got version %x, want at least TLS 1.2 and a check", siblings.MinVersion)
	}
}

// reaches makes a connection of its own to the peer, which is at 127.0.0.1.
func reaches(t *testing.T, p *peer, config *tls.Config) error {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func TestSiblingIsKnownByItsKeyAndNotByItsName(t *testing.T) {
	w := newWorld(t)
	authority := certs.NewAuthority(t, "company")
	ours := authority.Issue(t, "ours", "feedsink.example") // not where the peer is
	w.bear(t, ours)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	impostor := ours.TLS(t)
	impostor.PrivateKey = stranger
	known, err := security.Pinned(w.files.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		shown tls.Certificate
		want  string // of the error
	}{
		"our certificate":                      {ours.TLS(t), ""},
		"the authority's for the very address": {authority.Issue(t, "other", "127.0.0.1").TLS(t), "with another key"},
		"our certificate without its key":      {impostor, "invalid signature"},
	} {
		p := newPeer(t, ours)
		p.shown.Store(&c.shown)
		for side, config := range map[string]*tls.Config{"Siblings": server(t, w.files).Siblings(), "Known": known} {
			err := reaches(t, p, config)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: got %v, want %q", side, name, err, c.want)
			}
			if p.caller.Swap(nil) != nil != (c.want == "") {
				t.Errorf("%s: %s: was the request seen? want it to be where there is no error", side, name)
			}
		}
	}
}

func TestSiblingsPassARenewal(t *testing.T) {
	w := newWorld(t) // outside: its peer listens on a real address
	synctest.Test(t, func(t *testing.T) {
		first, second, third := certs.NewAuthority(t, "a").Issue(t, "first"), certs.NewAuthority(t, "b").Issue(t, "second"), certs.NewAuthority(t, "c").Issue(t, "third")
		w.bear(t, first)
		s := server(t, w.files)
		knows := func(when string, want map[string]bool) {
			t.Helper()
			for _, pair := range []certs.Pair{first, second, third} {
				leaf := pair.TLS(t).Leaf
				err := s.Siblings().VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}})
				if name := leaf.Subject.CommonName; (err == nil) != want[name] {
					t.Errorf("%s: the %s: got %v, want known: %t", when, name, err, want[name])
				}
			}
		}
		knows("at first", map[string]bool{"first": true})
		time.Sleep(time.Hour)
		knows("long after the start", map[string]bool{"first": true})
		w.bear(t, second)
		knows("renewed", map[string]bool{"first": true, "second": true})
		time.Sleep(10 * time.Minute)
		knows("ten minutes later", map[string]bool{"first": true, "second": true})
		time.Sleep(time.Second)
		knows("and a second", map[string]bool{"second": true})
		w.bear(t, third)
		knows("renewed again", map[string]bool{"second": true, "third": true})
	})
}

func TestKnownCertificateIsTheFilesFirst(t *testing.T) {
	dir := t.TempDir()
	authority := certs.NewAuthority(t, "company")
	pair := authority.Issue(t, "leaf")
	file := func(name string, content ...[]byte) string {
		path := filepath.Join(dir, name)
		var all []byte
		for _, c := range content {
			all = append(all, c...)
		}
		certs.Write(t, path, all)
		return path
	}
	config, err := security.Pinned(file("chain.pem", pair.Key, pair.Cert, authority.PEM)) // some keep the key beside it
	if err != nil {
		t.Fatal(err)
	}
	if err := config.VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.TLS(t).Leaf}}); err != nil {
		t.Errorf("the leaf: got %v, want it known", err)
	}
	for path, want := range map[string]string{
		file("key.pem", pair.Key):      "certFile: " + filepath.Join(dir, "key.pem") + ": holds no certificate",
		filepath.Join(dir, "none.pem"): "certFile: stat ",
		file("broken.pem", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")): "certFile: " + filepath.Join(dir, "broken.pem") + ": x509: ",
	} {
		if _, err := security.Pinned(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}
