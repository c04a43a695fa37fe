package service

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	userAgent  = "feedsink"
	maxAnswer  = 1 << 20  // an answer longer than this is not one of the interface
	maxRefusal = 64 << 10 // of a refusal only the beginning is of use
)

// call is one operation with all that its request is made of.
type call struct {
	op     operation
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
	op     operation
	query  string
	target string
}

// sendFixed is send for an operation whose path and query depend on nothing but
// the call's target. There are few of those: the address is built once.
func (c *Client) sendFixed(ctx context.Context, call *call) (answer, error) {
	key := fixedAddress{call.op, call.query, call.target}
	if u, ok := c.fixed.Load(key); ok {
		call.url = u.(*url.URL)
		return c.do(ctx, call)
	}
	got, err := c.send(ctx, call, call.target)
	if err == nil { // the table exists: nothing else is to stay indefinitely
		c.fixed.Store(key, call.url)
	}
	return got, err
}

// send calls an operation, whose path takes these ids and names. One that cannot be
// part of an address is rejected without a call, since "" or ".." would address
// something else.
func (c *Client) send(ctx context.Context, call *call, names ...string) (answer, error) {
	parts := c.paths[call.op]
	var full strings.Builder
	full.WriteString(parts[0])
	for i, name := range names {
		if !Addressable(name) {
			return answer{}, &Error{
				op: call.op, kind: Rejected, target: call.target,
				text: ErrNotAddressable.Error() + "; nothing was sent", err: ErrNotAddressable,
			}
		}
		full.WriteString(url.PathEscape(name))
		full.WriteString(parts[i+1])
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
	for atOnce := true; ; atOnce = false {
		tok := c.tokens.fresh()
		if tok == nil {
			var err error
			if tok, err = c.tokens.get(ctx); err != nil {
				return answer{}, call.failed(err) // which is an *Error of operation 14
			}
			atOnce = false
		}
		if !atOnce && c.may != nil {
			if err := c.may(); err != nil {
				return answer{}, call.failed(err)
			}
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
			call.file.bodies.Wait() // until the transport has let go of the file
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
		body, _ := readAnswer(response, maxRefusal)
		return answer{}, call.refused(w, response, body[:min(len(body), maxRefusal)], secrets)
	}
	return call.read(ctx, w, response, secrets)
}

// request builds the http.Request by hand: the address is known to be sound and
// the headers are shared, so there is nothing to parse or to copy.
func (c *call) request(w *watchdog, header http.Header) (*http.Request, error) {
	r := w.request()
	r.Method, r.URL, r.Host, r.Header = interfaceHas[c.op].method, c.url, c.url.Host, header
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

// lastName is the last part of the address: a key or a profile's id, of the operations that have one.
func (c *call) lastName() string {
	path := c.url.EscapedPath()
	name, _ := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
	return name
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
		if local := c.file.failed.Load(); local != nil {
			return c.failed(*local)
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
		lost, ok := errors.AsType[net.Error](err)
		e.timeout = ok && lost.Timeout()
		e.text = printable(redact(unquoted(err.Error()), secrets...))
	}
	return e
}

// refused is the error of an answer that is not the service's yes.
func (c *call) refused(w *watchdog, response *http.Response, body []byte, secrets []string) *Error {
	e := refusal(c.op, response.StatusCode, response.Header, body, c.zone, secrets...)
	e.target = c.target
	e.unknown = e.unknown && c.sent(w)
	if e.kind == NotFound && aboutOne(c.op) && saysNoPlace(body, c.lastName()) {
		e.kind, e.noPlace, e.text = Transient, true, noPlaceText(c.op)
	}
	return e
}

// read takes the body of a 2xx. Of an operation that changes something, what cannot be read
// of it is left out, unless it was to name what was begun.
func (c *call) read(ctx context.Context, w *watchdog, response *http.Response, secrets []string) (answer, error) {
	got := answer{status: response.StatusCode, header: response.Header}
	if c.into != nil {
		return c.pass(ctx, w, response, secrets)
	}
	if response.ContentLength == 0 && !foreign(c.op, got.status, response.Header, nil) {
		return got, nil
	}
	body, err := readAnswer(response, maxAnswer)
	if foreign(c.op, got.status, response.Header, body) || err != nil && len(body) == 0 && saysHTML(response.Header) {
		return answer{}, c.refused(w, response, body[:min(len(body), maxRefusal)], secrets)
	}
	if err == nil {
		got.body = body
	}
	named, names := namesOf[c.op]
	switch unnamed := names && identifier(got.body, response.Header, named) == ""; {
	case err != nil && (c.op.reads() || unnamed && !errors.Is(err, errTooLong)):
		return answer{}, c.lost(ctx, w, err, secrets)
	case unnamed && saysErrors(got.body):
		e := c.refused(w, response, body, secrets)
		e.text = "the answer has an error and no id"
		return answer{}, e
	}
	return got, nil
}

// pass writes the body of a 2xx to where it is to go, as it comes. What a gateway has packed on
// its way is unpacked; a file of the service that is packed stays so.
func (c *call) pass(ctx context.Context, w *watchdog, response *http.Response, secrets []string) (answer, error) {
	got := answer{status: response.StatusCode, header: response.Header}
	body := bufio.NewReaderSize(&moving{response.Body, w}, chunk)
	head := headOf(body)
	if !isPage(response.Header, head) && packedOnItsWay(response.Header) && CompressionOf(head) == Gzip {
		plain, err := gzip.NewReader(body)
		if err != nil {
			return got, c.lost(ctx, w, err, secrets)
		}
		body = bufio.NewReaderSize(plain, chunk)
		head = headOf(body)
	}
	if isPage(response.Header, head) {
		return got, c.refused(w, response, head, secrets)
	}
	if got.status != http.StatusOK && got.status != http.StatusNoContent {
		e := c.refused(w, response, head, secrets)
		e.text = "output files come with 200 alone"
		return got, e
	}
	var local, err error
	got.written, local, err = stream(c.into, body)
	switch {
	case local != nil:
		return got, c.failed(local)
	case err != nil:
		return got, c.lost(ctx, w, err, secrets)
	}
	return got, nil
}

// packedOnItsWay reports whether the header says that the body is a GZIP of what was asked for.
func packedOnItsWay(header http.Header) bool {
	coding := strings.ToLower(strings.TrimSpace(header.Get("Content-Encoding")))
	return coding == "gzip" || coding == "x-gzip"
}

// moving tells the watchdog of what is read.
type moving struct {
	io.Reader
	w *watchdog
}

func (m *moving) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.w.moved()
	}
	return n, err
}

// headOf is as much of a body as tells what it is, or all there is. An error comes
// again when it is read.
func headOf(body *bufio.Reader) []byte {
	const enough = 64
	for {
		_, err := body.Peek(body.Buffered() + 1) // reads once
		if have := body.Buffered(); have >= enough || err != nil {
			head, _ := body.Peek(have)
			return head
		}
	}
}

var errTooLong = errors.New("the answer is longer than 1 MiB")

// readAnswer returns what came before an error, too. A gateway may have compressed the answer,
// which nothing asked for.
func readAnswer(response *http.Response, limit int64) ([]byte, error) {
	body, err := readWhole(response, limit)
	if CompressionOf(body) != Gzip {
		return body, err
	}
	plain, bad := gzip.NewReader(bytes.NewReader(body))
	if bad != nil {
		return body, cmp.Or(err, bad)
	}
	body, bad = upTo(limit, plain)
	return body, cmp.Or(err, bad)
}

func readWhole(response *http.Response, limit int64) ([]byte, error) {
	if n := response.ContentLength; n > 0 && n <= limit {
		body := make([]byte, n)
		n, err := io.ReadFull(response.Body, body)
		return body[:n], err
	}
	return upTo(limit, response.Body)
}

func upTo(limit int64, r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = errTooLong
	}
	return body, err
}

// Body is what a call sends: one value of JSON.
type Body interface {
	// AppendJSON appends it to dst, which is memory of an earlier call. It is asked
	// again if the call has to be repeated.
	AppendJSON(dst []byte) []byte
}

// JSON is a body that is there already.
type JSON []byte

// AppendJSON is Body's.
func (j JSON) AppendJSON(dst []byte) []byte { return append(dst, j...) }

// longestKept is how long a body may be, in bytes, whose memory is kept.
const longestKept = 64 << 10

// lent is memory for one body after the other. A transport may read a body even
// after the call was answered, until it closes it.
type lent struct {
	text  []byte
	open  atomic.Int32                  // readers that are not closed
	again func() (io.ReadCloser, error) // is reader, for a request
}

func newLent() *lent {
	l := &lent{}
	l.again = func() (io.ReadCloser, error) { return l.reader(), nil }
	return l
}

// write puts the body there; no reader may be open.
func (l *lent) write(b Body) { l.text = b.AppendJSON(l.text[:0]) }

// reader reads the body from its beginning.
func (l *lent) reader() io.ReadCloser {
	l.open.Add(1)
	r := &lentReader{of: l}
	r.Reset(l.text)
	return r
}

// free reports whether another body may take the place of this one, and its
// memory is worth to be kept.
func (l *lent) free() bool { return l.open.Load() == 0 && cap(l.text) <= longestKept }

type lentReader struct {
	bytes.Reader
	of     *lent
	closed atomic.Bool
}

// Close may be called more than once.
func (r *lentReader) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		r.of.open.Add(-1)
	}
	return nil
}

// errSilent is a call whose time is up. It is not context.DeadlineExceeded,
// which would look like the caller's own deadline.
var errSilent = errors.New("timeout")

// watchdog bounds one exchange after the other and notes how far each came. Its
// context, timer, trace and the memory of the body are made once: made for each
// call they would be a good part of what a call costs.
type watchdog struct {
	limit  time.Duration
	parent any // the context it was made for
	cancel context.CancelFunc
	timer  *time.Timer
	trace  httptrace.ClientTrace
	blank  *http.Request // carries the context

	body *lent // of the call

	asked, connected atomic.Bool // for a connection, and got one
	silent           atomic.Bool // the time was up
	stopped          atomic.Bool // the exchange is over
}

// newWatchdog makes one whose context ends when nothing has moved for limit, or
// with parent. end or rest must be called.
func newWatchdog(parent context.Context, limit time.Duration) *watchdog {
	w := &watchdog{limit: limit, parent: parent}
	ctx, cancel := context.WithCancel(parent)
	w.cancel = cancel
	w.timer = time.AfterFunc(limit, func() {
		w.silent.Store(true)
		cancel()
	})
	w.body = newLent()
	w.trace.GetConn = func(string) { w.asked.Store(true) }
	w.trace.GotConn = func(httptrace.GotConnInfo) { w.connected.Store(true) }
	w.blank = (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(httptrace.WithClientTrace(ctx, &w.trace))
	return w
}

// request is a new request under the watchdog's context.
func (w *watchdog) request() *http.Request {
	r := *w.blank
	return &r
}

// moved starts the time anew: a byte was transferred.
func (w *watchdog) moved() {
	if !w.stopped.Load() {
		w.timer.Reset(w.limit)
	}
}

// end lets go of the exchange, and of whatever of it is still under way.
func (w *watchdog) end() {
	w.stopped.Store(true)
	w.timer.Stop()
	w.cancel()
}

// watchdogPool keeps watchdogs between calls: as many as there may be calls in flight.
type watchdogPool struct {
	limit time.Duration
	idle  chan *watchdog
}

// wake returns a watchdog for an exchange under parent. One that was made for
// the same context serves again, which is the lane's for all of its calls but
// those that are traced: another context may carry another call's span.
func (k *watchdogPool) wake(parent context.Context) *watchdog {
	select {
	case w := <-k.idle:
		if w.parent == parent {
			w.asked.Store(false)
			w.connected.Store(false)
			w.timer.Reset(k.limit)
			return w
		}
		w.cancel()
	default:
	}
	return newWatchdog(parent, k.limit)
}

// rest takes a watchdog back after an exchange that was answered. One whose time
// is up, be it only now, is of no further use.
func (k *watchdogPool) rest(w *watchdog) {
	if !w.body.free() {
		w.body = newLent()
	}
	if !w.timer.Stop() {
		w.end()
		return
	}
	select {
	case k.idle <- w:
	default:
		w.end()
	}
}

// close ends the idle ones.
func (k *watchdogPool) close() {
	for {
		select {
		case w := <-k.idle:
			w.end()
		default:
			return
		}
	}
}
