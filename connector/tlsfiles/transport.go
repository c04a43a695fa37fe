package tlsfiles

import (
	"crypto/x509"
	"net/http"
	"sync"
	"time"
)

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
	client *Client
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
func (c *Client) Transport(tuned *http.Transport) *Transport {
	return c.TransportOver(tuned, func(t *http.Transport) Connections { return t })
}

// TransportOver is Transport with what build makes of the http.Transport.
func (c *Client) TransportOver(tuned *http.Transport, build func(*http.Transport) Connections) *Transport {
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
