package service

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
)

// refused is the error of an answer that is not the service's yes.
func (c *call) refused(w *watchdog, response *http.Response, body []byte, secrets []string) *Error {
	e := refusal(c.op, response.StatusCode, response.Header, body, c.zone, secrets...)
	e.target = c.target
	e.unknown = e.unknown && c.sent(w)
	return e
}

// read takes the body of a 2xx. For an operation that changes something the
// status alone is the service's yes, so that what cannot be read is left out; a
// page is not the service's.
func (c *call) read(ctx context.Context, w *watchdog, response *http.Response, secrets []string) (answer, error) {
	got := answer{status: response.StatusCode, header: response.Header}
	if c.into != nil {
		body := bufio.NewReaderSize(response.Body, chunk)
		if head := headOf(body, w); isPage(response.Header, head) {
			return got, c.refused(w, response, head, secrets)
		}
		var err error
		got.written, err = stream(c.into, body, w)
		if local, ok := errors.AsType[*localError](err); ok {
			return got, c.failed(local.err)
		}
		if err != nil {
			return got, c.lost(ctx, w, err, secrets)
		}
		return got, nil
	}
	if response.ContentLength == 0 {
		return got, nil
	}
	body, err := readAnswer(response)
	if isPage(response.Header, body) || err != nil && len(body) == 0 && saysHTML(response.Header) {
		return answer{}, c.refused(w, response, body[:min(len(body), maxRefusal)], secrets)
	}
	if err != nil && c.op.reads() {
		return answer{}, c.lost(ctx, w, err, secrets)
	}
	if err == nil {
		got.body = body
	}
	return got, nil
}

// headOf is as much of a body as tells what it is, or all there is. An error comes
// again when it is read.
func headOf(body *bufio.Reader, w *watchdog) []byte {
	const enough = 64
	for {
		_, err := body.Peek(body.Buffered() + 1) // reads once
		w.moved()
		if have := body.Buffered(); have >= enough || err != nil {
			head, _ := body.Peek(have)
			return head
		}
	}
}

var errTooLong = errors.New("the answer is longer than 1 MiB")

// readAnswer returns what came before an error, too.
func readAnswer(response *http.Response) ([]byte, error) {
	if n := response.ContentLength; n > 0 && n <= maxAnswer {
		body := make([]byte, n)
		n, err := io.ReadFull(response.Body, body)
		return body[:n], err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = errTooLong
	}
	return body, err
}
