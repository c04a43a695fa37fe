package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	userAgent  = "feedsink"
	maxAnswer  = 1 << 20  // an answer longer than this is not one of the interface
	maxRefusal = 64 << 10 // of a refusal only the beginning is of use
)

// call is one operation with all that its request is made of.
type call struct {
	op     Op
	method string
	url    *url.URL
	query  string // percent-encoded
	target string // table, ETL or execution, for errors

	body  Body           // or nil
	file  *upload        // sent instead of body, or nil
	into  io.Writer      // takes the body of a 2xx, or nil
	zone  *time.Location // calendar of the table's slots, operations 8 and 10
	early bool           // send an upload without asking first

	secrets []string // what the request holds and an answer must not be quoted with
}

// answer is a 2xx.
type answer struct {
	status  int
	header  http.Header
	body    []byte // empty if it went elsewhere
	written int64  // bytes that went to call.into
}

// fixedAddress is what the address of operations 1 and 4 depends on.
type fixedAddress struct {
	op     Op
	query  string
	target string
}

// sendFixed is send for an operation whose path and query depend on nothing but
// the call's target. There are few of those: the address is built once.
func (c *Client) sendFixed(ctx context.Context, call *call, path ...string) (answer, error) {
	key := fixedAddress{call.op, call.query, call.target}
	if u, ok := c.fixed.Load(key); ok {
		call.url = u.(*url.URL)
		return c.do(ctx, call)
	}
	got, err := c.send(ctx, call, path...)
	if err == nil { // the table exists: nothing else is to stay indefinitely
		c.fixed.Store(key, call.url)
	}
	return got, err
}

// send calls an operation at path, whose parts alternate between what is fixed
// and what comes from outside. A name or key that cannot be part of an address
// is rejected without a call, since "" or ".." would address something else.
func (c *Client) send(ctx context.Context, call *call, path ...string) (answer, error) {
	var full strings.Builder
	full.WriteString(path[0])
	for i, part := range path[1:] {
		if i%2 == 0 {
			if !addressable(part) {
				return answer{}, &Error{
					op: call.op, kind: Rejected, target: call.target,
					text: `an id or name that is empty, "." or ".." cannot be part of an address; nothing was sent`,
				}
			}
			part = url.PathEscape(part)
		}
		full.WriteString(part)
	}
	call.url = address(c.base, full.String())
	call.url.RawQuery = call.query
	return c.do(ctx, call)
}

// do calls with the current token. A call refused for its token is repeated
// once with a new one; one that may not ask before its upload is repeated
// without asking.
func (c *Client) do(ctx context.Context, call *call) (answer, error) {
	renewed := false
	for {
		tok, err := c.tokens.get(ctx)
		if err != nil {
			return answer{}, call.failed(err) // which is an *Error of operation 14
		}
		got, err := c.exchange(ctx, call, call.header(tok), append(slices.Clip(tok.secrets), call.secrets...)...)
		refused, ok := errors.AsType[*Error](err)
		switch {
		case ok && refused.status == http.StatusUnauthorized && !renewed:
			c.tokens.drop(tok)
			renewed = true
		case ok && refused.status == http.StatusExpectationFailed && call.file != nil && !call.early:
			call.early = true
		default:
			return got, err
		}
	}
}

// header picks the token's prepared headers; only an upload needs its own.
func (c *call) header(tok *token) http.Header {
	switch {
	case c.file != nil:
		header := tok.bare.Clone()
		header.Set("Content-Type", c.file.contentType)
		if !c.early {
			// A refusal that needs no look at the file should come before the
			// file: a server that answers early cuts the connection, and the
			// answer is lost with it.
			header.Set("Expect", "100-continue")
		}
		return header
	case c.into != nil:
		header := tok.bare.Clone()
		header.Set("Accept", "*/*")
		return header
	case c.body != nil:
		return tok.json
	}
	return tok.bare
}

// exchange sends the request once and reads its answer. secrets are what the
// answer must not be quoted with.
func (c *Client) exchange(ctx context.Context, call *call, header http.Header, secrets ...string) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, canceled(ctx, call.op, call.target)
	}
	w := c.watchdogs.wake(ctx)
	answered := false
	defer func() {
		if answered && call.file == nil && call.into == nil {
			c.watchdogs.rest(w)
			return
		}
		w.end()
		if call.file != nil {
			call.file.wait()
		}
	}()
	request, err := call.request(w, header)
	if err != nil {
		return answer{}, call.failed(err)
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return answer{}, call.lost(ctx, w, err, secrets)
	}
	answered = true
	defer func() { _ = response.Body.Close() }()
	switch code := response.StatusCode; {
	case code == http.StatusSwitchingProtocols:
		// What follows is another protocol's and has no end: it is not read.
		return answer{}, call.refused(w, response, nil, secrets)
	case code < 200 || code > 299:
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
		return answer{}, call.refused(w, response, body, secrets)
	}
	return call.read(ctx, w, response, secrets)
}

// request builds the http.Request by hand: the address is known to be sound and
// the headers are shared, so there is nothing to parse or to copy.
func (c *call) request(w *watchdog, header http.Header) (*http.Request, error) {
	r := w.request()
	r.Method, r.URL, r.Host, r.Header = c.method, c.url, c.url.Host, header
	switch {
	case c.file != nil:
		body, err := c.file.open(w)
		if err != nil {
			return nil, err
		}
		r.Body, r.ContentLength = body, body.length
		r.GetBody = func() (io.ReadCloser, error) {
			again, err := c.file.open(w)
			if err == nil && again.length != body.length {
				_ = again.Close()
				return nil, errFileChanged
			}
			return again, err
		}
	case c.body != nil:
		w.body.write(c.body)
		r.Body, r.ContentLength, r.GetBody = w.body.reader(), int64(len(w.body.text)), w.body.again
	default:
		r.Body = http.NoBody
	}
	return r, nil
}

// sent reports whether the whole request may have reached the service.
func (c *call) sent(w *watchdog) bool {
	if c.file != nil {
		return c.file.whole.Load()
	}
	return w.connected.Load() || !w.asked.Load()
}

// failed puts the operation in front of an error from elsewhere.
func (c *call) failed(err error) error {
	if c.target == "" {
		return fmt.Errorf("%s: %w", c.op, err)
	}
	return fmt.Errorf("%s %s: %w", c.op, c.target, err)
}

// lost is the error of a request without an answer, or with half of one.
func (c *call) lost(ctx context.Context, w *watchdog, err error, secrets []string) error {
	if c.file != nil {
		if local := c.file.failure(); local != nil {
			return c.failed(local)
		}
	}
	e := &Error{op: c.op, kind: Transient, target: c.target, err: err}
	e.unknown = !c.op.reads() && c.sent(w)
	switch {
	case ctx.Err() != nil:
		e.kind, e.text, e.err = Canceled, ctx.Err().Error(), ctx.Err()
	case w.silent.Load():
		e.timeout = true
		e.text, e.err = fmt.Sprintf("no answer within %v", w.limit), errSilent
		if c.file != nil || c.into != nil {
			e.text = fmt.Sprintf("no byte moved for %v", w.limit)
		}
	default:
		e.timeout = isTimeout(err)
		e.text = printable(redact(unquoted(err.Error()), secrets...))
	}
	return e
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}
