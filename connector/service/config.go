package service

import (
	"errors"
	"fmt"
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
}

// connections is how many calls in flight there is room for.
func (c Config) connections() int {
	if c.Concurrency == 0 {
		return 256
	}
	return c.Concurrency
}

// Validate reports everything in c that cannot work, at once.
func (c Config) Validate() error {
	var errs []error
	for _, address := range []struct{ name, value string }{{"baseURL", c.BaseURL}, {"authURL", c.AuthURL}} {
		if _, err := parseBase(address.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", address.name, err))
		}
	}
	if c.Entity == "" || !addressable(c.Entity) {
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
	transport http.RoundTripper
	watchdogs *watchdogPool
	tokens    *tokenSource

	fixed sync.Map // addresses that consist of the table alone: fixedAddress → *url.URL

	auth     *url.URL // operation 14
	base     *url.URL // scheme and host of everything else
	profiles string   // roots of the paths, percent-encoded, up to the table
	records  string
	imports  string // up to the entity
	webhooks string
}

// New returns a client. It calls nothing yet.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	base, _ := parseBase(cfg.BaseURL)
	auth, _ := parseBase(cfg.AuthURL)
	root, entity := base.EscapedPath(), url.PathEscape(cfg.Entity)
	c := &Client{
		transport: cfg.Transport,
		watchdogs: newWatchdogPool(cfg.Timeout, cfg.connections()),
		base:      &url.URL{Scheme: base.Scheme, Host: base.Host},
		profiles:  root + "/profiles/v5/entities/" + entity + "/profile-tables/",
		records:   root + "/custom-data/v4/entity/" + entity + "/customTable/",
		imports:   root + "/mass-imports/v5/entities/" + entity,
		webhooks:  root + "/webhooks/v4/entity/" + entity,
	}
	c.auth = address(auth, auth.EscapedPath()+"/auth/token")
	if tuned := newTransport(cfg); c.transport == nil && cfg.Secure != nil {
		c.transport = cfg.Secure(tuned)
	} else if c.transport == nil {
		c.transport = tuned
	}
	if cfg.Wrap != nil {
		c.transport = cfg.Wrap(c.transport)
	}
	c.tokens = newTokenSource(cfg.APIKey, c.requestToken)
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
// involved: the token must not travel to a host nobody configured.
func newTransport(cfg Config) *http.Transport {
	dialer := &net.Dialer{Timeout: min(cfg.Timeout, 10*time.Second), KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: min(cfg.Timeout, 10*time.Second)},
		MaxIdleConnsPerHost:    cfg.connections(),
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
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
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

// addressable reports whether segment can stand in a path: an empty one or a
// dot would make another address of it, on the way or at the service, and
// percent-encoding does not protect dots.
func addressable(segment string) bool {
	return segment != "" && segment != "." && segment != ".."
}
