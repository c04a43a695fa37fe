// Package service is the typed client of the Data Feeding Interface: one method
// for each operation, one token for all of them, and one error type that is
// classified here, at the wire, so that no other package has to look at a status.
//
// It sends each call once; the two exceptions are an expired token (one new
// token, the call repeated) and a server that refuses to be asked before an
// upload. Trying again later is the caller's business, who learns from Error
// whether that can help. Operation 15 was removed by the service in June 2025
// and is not offered.
//
// Bodies of operations 1 to 5 are handed in as JSON: they are made for every
// record. Everything else is typed. It knows HTTP, JSON answers and how much of
// them the interface leaves open (answers.go). It knows nothing about Kafka,
// events, mappings, the spool or back-off, and imports nothing else of this
// module.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Config says where the service is and how it is called.
type Config struct {
	BaseURL string // of operations 1 to 13; http or https, a path is kept
	AuthURL string // of operation 14
	Entity  string // the owner scope of the tables

	// APIKey is asked before every token request, so that a key rotated on
	// disk is taken up. It may be called by any goroutine, never by two at once.
	APIKey func() (Secret, error)

	// Timeout bounds a request from its first byte to its answer's last, and for
	// file transfers (operations 8, 10 and 12) the time in which no byte moves.
	Timeout time.Duration

	// Concurrency is the most calls in flight at once. As many idle
	// connections are kept; 0 means 256. It is not enforced here.
	Concurrency int

	// Secure gives the tuned transport its certificates and its proxy; nil leaves
	// it with the system's. Redirects are not followed, whatever it returns.
	Secure func(tuned *http.Transport) http.RoundTripper

	// Wrap puts something around the transport, which must leave requests and
	// answers what they are; nil: nothing.
	Wrap func(http.RoundTripper) http.RoundTripper

	// Transport replaces the tuned one; nil is the tuned one.
	Transport http.RoundTripper

	// Dial opens the tuned transport's connections; nil: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// validate reports everything in c that cannot work, at once.
func (c Config) validate() error {
	var errs []error
	for _, address := range []struct{ name, value string }{{"baseURL", c.BaseURL}, {"authURL", c.AuthURL}} {
		if _, err := parseBase(address.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", address.name, err))
		}
	}
	if c.Entity == "" || !Addressable(c.Entity) {
		errs = append(errs, fmt.Errorf("entity: must be a name, is %q", c.Entity))
	}
	if c.APIKey == nil {
		errs = append(errs, errors.New("apiKey: nothing to read it from"))
	}
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("timeout: must be positive, is %v", c.Timeout))
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("concurrency: must not be negative, is %d", c.Concurrency))
	}
	return errors.Join(errs...)
}

// Client calls the service. All its methods may be used concurrently.
type Client struct {
	*wire
	may func() error // asked before a request that does not follow at once; nil: it is not
}

// While is the client of one attempt at an operation. Before a request that the attempt sends
// later than its beginning, behind a token request or an answer, it asks may: an error is the
// attempt's, and nothing more is sent.
func (c *Client) While(may func() error) *Client { return &Client{c.wire, may} }

// wire is what all calls share.
type wire struct {
	transport http.RoundTripper
	watchdogs *watchdogPool
	tokens    *tokenSource

	fixed sync.Map // addresses that consist of the table alone: fixedAddress → *url.URL

	auth  *url.URL                    // operation 14
	base  *url.URL                    // scheme and host of everything else
	paths [len(interfaceHas)][]string // of each operation, around its ids and names; percent-encoded
}

// New returns a client. It calls nothing yet.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 256)
	base, _ := parseBase(cfg.BaseURL)
	auth, _ := parseBase(cfg.AuthURL)
	root, entity := base.EscapedPath(), url.PathEscape(cfg.Entity)
	c := &Client{wire: &wire{
		transport: cfg.Transport,
		watchdogs: &watchdogPool{limit: cfg.Timeout, idle: make(chan *watchdog, cfg.Concurrency)},
		base:      &url.URL{Scheme: base.Scheme, Host: base.Host},
		auth:      address(auth, auth.EscapedPath()+interfaceHas[opToken].path),
	}}
	for op, has := range interfaceHas {
		c.paths[op] = strings.Split(root+strings.Replace(has.path, "{entity}", entity, 1), "{}")
	}
	if tuned := newTransport(cfg); c.transport == nil && cfg.Secure != nil {
		c.transport = cfg.Secure(tuned)
	} else if c.transport == nil {
		c.transport = tuned
	}
	if cfg.Wrap != nil {
		c.transport = cfg.Wrap(c.transport)
	}
	c.tokens = &tokenSource{key: cfg.APIKey, fetch: c.requestToken}
	return c, nil
}

// Close gives up the idle connections. Calls in flight are not touched.
func (c *Client) Close() {
	c.watchdogs.close()
	if idle, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// newTransport keeps a connection for every call in flight: with the two idle
// connections per host that are the default, half of the time goes into
// connecting. Compression is off because output files are told by content and
// other answers are small. HTTP/2 is used where it is offered; as all calls share
// a connection then, one that has gone silent is found by pings. Redirects are never followed, as no http.Client is
// involved: the token must not travel to a host that is not configured.
func newTransport(cfg Config) *http.Transport {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: min(cfg.Timeout, 10*time.Second), KeepAlive: 15 * time.Second}).DialContext
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: min(cfg.Timeout, 10*time.Second)},
		MaxIdleConnsPerHost:    cfg.Concurrency,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    min(cfg.Timeout, 10*time.Second),
		ExpectContinueTimeout:  time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		WriteBufferSize:        8 << 10, // a token, a header and a body in one write
	}
}

// parseBase takes an address without query, fragment or user: those would end
// up in every call, and a password in logs. The address is echoed only where
// it cannot hold one.
func parseBase(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("not an address")
	case u.User != nil:
		return nil, errors.New("must not carry a user or password")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New("must begin with http:// or https:// and a host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must not carry a query or fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// address is base's host with path, which is percent-encoded.
func address(base *url.URL, path string) *url.URL {
	u := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: path}
	if strings.IndexByte(path, '%') >= 0 {
		// Encoded by url.PathEscape, so it can be decoded.
		u.Path, _ = url.PathUnescape(path)
		u.RawPath = path
	}
	return u
}

// Addressable reports whether segment can stand in a path: an empty one or a
// dot would make another address of it, on the way or at the service, and
// percent-encoding does not protect dots.
func Addressable(segment string) bool {
	return segment != "" && segment != "." && segment != ".."
}

// ErrNotAddressable is why a call is refused of which an id or name is not Addressable.
var ErrNotAddressable = errors.New(`an id or name that is empty, "." or ".." cannot be part of an address`)

const redacted = "[redacted]"

// Secret is a text that prints as "[redacted]" through every verb of fmt, in
// JSON, YAML and logs, also from inside an unexported field. The zero Secret is
// empty.
type Secret struct {
	// A pointer, because fmt and slog print unexported strings as they are
	// without asking their methods, but of a nested pointer only the address.
	text *string
}

// NewSecret holds text without the white space around it: files tend to end
// with a line break, which no HTTP header may carry.
func NewSecret(text string) Secret {
	text = strings.TrimSpace(text)
	return Secret{text: &text}
}

// Reveal is the text itself, for the header it is sent in.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String hides the text.
func (s Secret) String() string { return redacted }

// Format hides the text from every verb, also those no string takes.
func (s Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// MarshalText hides the text from JSON, YAML and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
