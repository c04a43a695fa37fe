package contract

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/feedsink/feedsink/schemas"
)

// document is the published description of the interface, with its examples
// validated.
func document(t *testing.T) *openapi3.T {
	t.Helper()
	text, err := fs.ReadFile(schemas.Files, "interface.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	doc.Servers = nil // the tests' service has an address of its own
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// operations are the document's operations by their ids.
func operations(doc *openapi3.T) map[string]*openapi3.Operation {
	all := map[string]*openapi3.Operation{}
	for _, item := range doc.Paths.Map() {
		for _, operation := range item.Operations() {
			all[operation.OperationID] = operation
		}
	}
	return all
}

// number is an operation's number in the interface, 0 for none.
func number(operation *openapi3.Operation) int {
	n, _ := operation.Extensions["x-operation"].(float64)
	return int(n)
}

// A file is judged by the service, not by the document: it is any bytes, in
// whatever dialect of CSV.
var registerFiles = sync.OnceFunc(func() {
	for _, kind := range []string{"text/csv", "application/gzip", "application/zip"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.FileBodyDecoder)
	}
})

// recorder stands between the client and the service, holds every request and
// every answer against the document and notes which of its answers occurred.
type recorder struct {
	t    *testing.T
	doc  *openapi3.T
	next http.RoundTripper

	mu   sync.Mutex
	seen map[string]map[int]int // by operation id, then status
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	registerFiles()
	next := &http.Transport{}
	t.Cleanup(next.CloseIdleConnections)
	return &recorder{t: t, doc: document(t), next: next, seen: map[string]map[int]int{}}
}

// RoundTrip passes a call on, whole: what is looked at is held in memory.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if closed := request.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	route, parameters := find(r.doc, request)
	if route == nil {
		r.t.Errorf("%s %s: the document has no such operation", request.Method, request.URL)
		return nil, errors.New("no such operation")
	}
	for name := range request.URL.Query() {
		if route.Operation.Parameters.GetByInAndName("query", name) == nil {
			r.t.Errorf("%s: the document has no query parameter %q", route.Operation.OperationID, name)
		}
	}
	input := &openapi3filter.RequestValidationInput{
		Request: withBody(request, body), PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{MultiError: true, IncludeResponseStatus: true, AuthenticationFunc: authorized},
	}
	if err := openapi3filter.ValidateRequest(request.Context(), input); err != nil {
		r.t.Errorf("%s: request %s %s\n%.500s\ndoes not fit: %v", route.Operation.OperationID, request.Method, request.URL, body, err)
	}
	response, err := r.next.RoundTrip(withBody(request, body))
	if err != nil {
		return nil, err
	}
	return response, r.answered(request.Context(), input, response)
}

// find is the operation of a request with the values in its path. The routers of
// the library take an encoded slash for one that separates, or need one more.
func find(doc *openapi3.T, request *http.Request) (*routers.Route, map[string]string) {
	got := strings.Split(request.URL.EscapedPath(), "/")
	for path, item := range doc.Paths.Map() {
		want := strings.Split(path, "/")
		operation := item.GetOperation(request.Method)
		if operation == nil || len(got) != len(want) {
			continue
		}
		values, fits := map[string]string{}, true
		for i, part := range want {
			value, err := url.PathUnescape(got[i])
			if name, is := strings.CutPrefix(part, "{"); is {
				values[strings.TrimSuffix(name, "}")] = value
				fits = fits && err == nil
			} else {
				fits = fits && part == got[i]
			}
		}
		if fits {
			return &routers.Route{
				Spec: doc, Path: path, PathItem: item, Method: request.Method, Operation: operation,
			}, values
		}
	}
	return nil, nil
}

// answered validates an answer and puts it back together.
func (r *recorder) answered(ctx context.Context, input *openapi3filter.RequestValidationInput, response *http.Response) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	operation := input.Route.Operation
	r.mu.Lock()
	if r.seen[operation.OperationID] == nil {
		r.seen[operation.OperationID] = map[int]int{}
	}
	r.seen[operation.OperationID][response.StatusCode]++
	r.mu.Unlock()

	options := *input.Options
	options.ExcludeResponseBody = len(body) == 0 && mayBeEmpty(operation, response.StatusCode)
	err = openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: response.StatusCode, Header: response.Header,
		Body: io.NopCloser(bytes.NewReader(body)), Options: &options,
	})
	if err != nil {
		r.t.Errorf("%s: answer %d\n%.500s\ndoes not fit: %v", operation.OperationID, response.StatusCode, body, err)
	}
	if len(body) > 0 && hasNoBody(operation, response.StatusCode) {
		r.t.Errorf("%s: answer %d has a body, want none: %.500s", operation.OperationID, response.StatusCode, body)
	}
	return nil
}

func withBody(request *http.Request, body []byte) *http.Request {
	again := request.Clone(request.Context())
	again.Body, again.ContentLength, again.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	if len(body) == 0 {
		again.Body = http.NoBody
	}
	return again
}

// authorized wants each operation's own kind of Authorization.
func authorized(_ context.Context, input *openapi3filter.AuthenticationInput) error {
	header := input.RequestValidationInput.Request.Header.Get("Authorization")
	_, bearer := strings.CutPrefix(header, "Bearer ")
	if header == "" || bearer != (input.SecurityScheme.Type == "http") {
		return errors.New("the Authorization header is not the one of this operation")
	}
	return nil
}

// mayBeEmpty reports whether the document leaves an answer's shape open.
func mayBeEmpty(operation *openapi3.Operation, status int) bool {
	if answer := operation.Responses.Status(status); answer != nil {
		_, open := answer.Value.Extensions["x-open"]
		return open
	}
	return true
}

// hasNoBody reports whether an answer is documented as one without a body.
func hasNoBody(operation *openapi3.Operation, status int) bool {
	answer := operation.Responses.Status(status)
	return answer != nil && len(answer.Value.Content) == 0 && !mayBeEmpty(operation, status)
}

func TestDocumentHasEveryOperationOnce(t *testing.T) {
	found := map[int]string{}
	for id, operation := range operations(document(t)) {
		n := number(operation)
		if other, twice := found[n]; twice || n < 1 || n > 15 {
			t.Errorf("%s: got x-operation %d (also of %q), want 1 to 15, once each", id, n, other)
		}
		found[n] = id
		if gone := n == 15; operation.Deprecated != gone {
			t.Errorf("%s: got deprecated %v, want %v", id, operation.Deprecated, gone)
		}
	}
	if len(found) != 15 {
		t.Errorf("got %d operations, want 15: %v", len(found), found)
	}
}

// unanswered are the documented answers that no call has met.
func (r *recorder) unanswered() []string {
	var missing []string
	for id, operation := range operations(r.doc) {
		for status := range operation.Responses.Map() {
			code, err := strconv.Atoi(status)
			if err == nil && r.seen[id][code] == 0 {
				missing = append(missing, id+" "+status)
			}
		}
	}
	return missing
}
