package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/security"
)

// Client asks the admin server of a running sink.
type Client struct {
	base  *url.URL
	token func() (string, error)
	http  http.Client
}

// Credentials are what a sink wants to see of who asks, and how it is known.
type Credentials struct {
	Token  func() (string, error) // as in its admin.tokenFile, asked for with each question; nil: none
	CAFile string                 // PEM certificates to believe instead of the system's; "": the system's
	// CertFile is the sink's own certificate. It is believed by whatever name the
	// sink is reached: one that is asked on its own machine need not be called
	// localhost. Without CAFile only.
	CertFile string
}

// askTimeout bounds one question with its answer; maxAnswer is how many bytes of
// an answer are read, maxRefusal of one that says no.
const (
	askTimeout = 15 * time.Second
	maxAnswer  = 16 << 20
	maxRefusal = 4 << 10
)

// NewClient takes the server's address, http://host:port or https://host:port.
func NewClient(server string, c Credentials) (*Client, error) {
	base, err := url.Parse(server)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q: is no address of the form http://HOST:PORT", Redacted(server))
	}
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	return &Client{base: base, token: c.Token, http: http.Client{
		Timeout:   askTimeout,
		Transport: transport,
		// Where a redirect leads, the token has no business.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Redacted is a server's address without the password that it may have.
func Redacted(server string) string {
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		return u.Redacted()
	}
	if at := strings.LastIndex(server, "@"); at >= 0 { // it may end a password all the same
		return "…" + server[at:]
	}
	return server
}

func (c Credentials) transport() (http.RoundTripper, error) {
	plain := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if c.CertFile != "" && c.CAFile == "" {
		known, err := security.Pinned(c.CertFile)
		plain.TLSClientConfig = known
		return plain, err
	}
	certificates, err := security.NewTLSClient(security.TLSFiles{CAFile: c.CAFile}, nil)
	if err != nil {
		return nil, err
	}
	return certificates.Transport(plain), nil
}

// Status reads what the sink does into a pointer to an observe.Status. Like the other methods
// it makes one attempt and returns a *Refusal if the server says no.
func (c *Client) Status(ctx context.Context, into any) error {
	return c.ask(ctx, http.MethodGet, into, "status")
}

// Imports reads the list of all mappings into a pointer.
func (c *Client) Imports(ctx context.Context, into any) error {
	return c.ask(ctx, http.MethodGet, into, "imports")
}

// Import reads one mapping into a pointer.
func (c *Client) Import(ctx context.Context, mapping string, into any) error {
	return c.ask(ctx, http.MethodGet, into, "imports", url.PathEscape(mapping))
}

// Reason reads what the service said about a mapping's import that went wrong
// into a pointer. It may be customers' data.
func (c *Client) Reason(ctx context.Context, mapping string, into any) error {
	return c.ask(ctx, http.MethodGet, into, "imports", url.PathEscape(mapping), reasonPath)
}

// Release lets a halted mapping go on and reads what goes on into a pointer.
func (c *Client) Release(ctx context.Context, mapping string, into any) error {
	return c.ask(ctx, http.MethodPost, into, "imports", url.PathEscape(mapping), "release")
}

// Roll sends the mapping's open file now and reads what becomes of it into a pointer.
func (c *Client) Roll(ctx context.Context, mapping string, reserve bool, into any) error {
	query := url.Values{}
	if reserve {
		query.Set("reserve", "true")
	}
	return c.change(ctx, query, into, "imports", url.PathEscape(mapping), "roll")
}

// Pause pauses a mapping and reads what is paused into a pointer.
func (c *Client) Pause(ctx context.Context, mapping string, asked PauseRequest, into any) error {
	query := url.Values{}
	if asked.Lane != "" {
		query.Set("lane", asked.Lane)
	}
	if asked.Reason != "" {
		query.Set("reason", asked.Reason)
	}
	if !asked.Until.IsZero() {
		query.Set("until", asked.Until.UTC().Format(time.RFC3339))
	}
	return c.change(ctx, query, into, "mappings", url.PathEscape(mapping), "pause")
}

// Resume lets a mapping go on and reads what is still paused into a pointer.
func (c *Client) Resume(ctx context.Context, mapping, lane string, into any) error {
	query := url.Values{}
	if lane != "" {
		query.Set("lane", lane)
	}
	return c.change(ctx, query, into, "mappings", url.PathEscape(mapping), "resume")
}

// TakeSlot counts an import by hand as one of the day and reads what is left into
// a pointer.
func (c *Client) TakeSlot(ctx context.Context, mapping string, into any) error {
	return c.ask(ctx, http.MethodPost, into, "imports", url.PathEscape(mapping), "slots")
}

// LogLevel reads the level of the process' log into a pointer to a LogLevelAnswer.
func (c *Client) LogLevel(ctx context.Context, into any) error {
	return c.ask(ctx, http.MethodGet, into, "log-level")
}

// SetLogLevel changes the level and reads it into a pointer to a LogLevelAnswer.
func (c *Client) SetLogLevel(ctx context.Context, level string, into any) error {
	return c.ask(ctx, http.MethodPost, into, "log-level", url.PathEscape(level))
}

func (c *Client) ask(ctx context.Context, method string, into any, path ...string) error {
	if err := unaddressable(path); err != nil {
		return err
	}
	return c.askAt(ctx, method, c.base.JoinPath(path...), into, path[0])
}

// change asks for a change with parameters.
func (c *Client) change(ctx context.Context, query url.Values, into any, path ...string) error {
	if err := unaddressable(path); err != nil {
		return err
	}
	at := c.base.JoinPath(path...)
	at.RawQuery = query.Encode()
	return c.askAt(ctx, http.MethodPost, at, into, path[0])
}

// unaddressable refuses a name that no sink has and no address can hold: it would be that of
// something else.
func unaddressable(path []string) error {
	if len(path) < 2 || path[1] != "" && path[1] != "." && path[1] != ".." {
		return nil
	}
	if path[0] == levelValue {
		return &Refusal{Status: http.StatusBadRequest, Message: fmt.Sprintf("log level: must be debug, info, warn or error, is %q", path[1])}
	}
	return &Refusal{Status: http.StatusNotFound, Message: fmt.Sprintf("mapping %s: is not in the configuration", path[1])}
}

func (c *Client) askAt(ctx context.Context, method string, at *url.URL, into any, value string) error {
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set(changeHeader, value) // as each wants it that wants one: imports, mappings, log-level
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if ok := resp.StatusCode >= 200 && resp.StatusCode <= 299; !ok || resp.Header.Get(changeHeader) != sinksValue {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // as far as it came
		if ok {
			return errors.New(words(resp, body))
		}
		return &Refusal{Status: resp.StatusCode, Message: words(resp, body), Foreign: resp.Header.Get(changeHeader) != sinksValue}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s is not a sink's: %w", c.base.Redacted(), err)
	}
	return nil
}

// noSink is what an answer without the header of a sink's says.
const noSink = "what answers there is no admin server of feedsink, a proxy in its place, or a sink of an older version; --server, or -c with the sink's configuration file, names another address"

// words are what the sink says, or what came in its place.
func words(resp *http.Response, body []byte) string {
	said := strings.TrimSpace(string(body))
	status := fmt.Sprintf("%s %s: %s", resp.Request.Method, resp.Request.URL.Redacted(), resp.Status)
	switch {
	case resp.Header.Get(changeHeader) == sinksValue && said != "":
		return said
	case resp.Header.Get(changeHeader) == sinksValue:
		return status
	case strings.HasPrefix(said, "Client sent an HTTP request to an HTTPS server"): // as Go's says it
		return status + ": the server there speaks TLS; write https://"
	}
	if to, err := resp.Location(); err == nil {
		status += fmt.Sprintf(", to %s://%s/", to.Scheme, to.Host)
	}
	return status + ": " + noSink
}
