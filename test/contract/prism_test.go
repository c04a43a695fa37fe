//go:build prism

package contract

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// prism mocks the document with a tool that shares no code with us and refuses
// (--errors) every request that it does not find in the document. It returns
// the mock's address.
func prism(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // the port is free again, for the mock
	_, port, _ := net.SplitHostPort(address)

	command := exec.CommandContext(t.Context(), "node",
		filepath.Join("prism", "node_modules", "@stoplight", "prism-cli", "dist", "index.js"),
		"mock", "--host", "127.0.0.1", "--port", port, "--errors", "--verboseLevel", "info",
		mockable(t))
	command.Env = append(os.Environ(), "NO_COLOR=1", "FORCE_COLOR=0")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		t.Fatalf("start prism: %v; `npm ci` in test/contract/prism puts it there", err)
	}
	listening, ended := make(chan bool, 1), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(listening)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "is listening") {
				listening <- true // said once
			}
		}
	}()
	t.Cleanup(func() { // the test's context has ended, and the mock with it
		<-ended
		_ = command.Wait()
	})
	if !<-listening {
		t.Fatal("prism ended before it was listening: it does not take the document")
	}
	return "http://" + address
}

// mockable is the document as a file for the mock. It takes the parts of a form
// for text, whatever their type, so that the one that is JSON has to be text
// there; the other tests hold it against its schema. The mock answers the
// example whatever record is asked for, so that the example has to be that one.
func mockable(t *testing.T) string {
	t.Helper()
	text, err := fs.ReadFile(schemas.Files, "interface.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const part = `oneshotEtl: {$ref: "#/components/schemas/OneShotDefinition"}`
	if n := strings.Count(string(text), part); n != 1 {
		t.Fatalf("got %d places %s in the document, want 1", n, part)
	}
	path := filepath.Join(t.TempDir(), "interface.openapi.yaml")
	mocked := strings.NewReplacer(part, "oneshotEtl: {type: string}", "businessKey: 4c1f0c1e", "businessKey: a/b").Replace(string(text))
	if err := os.WriteFile(path, []byte(mocked), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// known is what the mock's examples speak of.
func known(t *testing.T) *memory {
	return &memory{profile: "p1", etl: "101", execution: "e-1", dir: t.TempDir(), finish: func(string) {}}
}

func TestForeignMockTakesEveryCall(t *testing.T) {
	c := client(t, prism(t), newRecorder(t))
	for _, s := range slices.Concat(steps(), remoteSteps()) {
		if s.want == success {
			s.do(t, c, known(t))
		}
	}
}

// TestForeignMockRefusesWhatIsNotInTheDocument shows that a yes of the mock
// means something.
func TestForeignMockRefusesWhatIsNotInTheDocument(t *testing.T) {
	c := client(t, prism(t), nil)
	for _, body := range []string{`{"attribute":{}}`, `{"subscriptions":{"newsletter":"yes"}}`, `[]`} {
		_, err := c.UpsertProfile(t.Context(), "customers", service.JSON(body))
		if got := kind(err); got != service.Rejected {
			t.Errorf("%s: got %v (%v), want rejected", body, got, err)
		}
	}
}

// TestForeignMockAnswersEveryRefusal has the mock give each answer that the
// document names, and the client understand it.
func TestForeignMockAnswersEveryRefusal(t *testing.T) {
	wanted := map[int]service.Kind{401: service.Unauthorized, 404: service.NotFound, 409: service.Conflict, 429: service.Throttled}
	doc, address := document(t), prism(t)
	for _, s := range slices.Concat(steps(), remoteSteps()) {
		if s.want != success || s.method == "Authenticate" {
			continue
		}
		var id string
		note := transport(func(request *http.Request) (*http.Response, error) {
			if route, _ := find(doc, request); route.Operation.OperationID != "getToken" {
				id = route.Operation.OperationID
			}
			return http.DefaultTransport.RoundTrip(request)
		})
		_ = s.call(t.Context(), client(t, address, note), known(t))
		for _, status := range slices.Sorted(maps.Keys(operations(doc)[id].Responses.Map())) {
			code, err := strconv.Atoi(status)
			if err != nil || code < 400 {
				continue
			}
			prefer := transport(func(request *http.Request) (*http.Response, error) {
				if route, _ := find(doc, request); route.Operation.OperationID == id {
					request = request.Clone(request.Context())
					request.Header.Set("Prefer", fmt.Sprintf("code=%d", code))
				}
				return http.DefaultTransport.RoundTrip(request)
			})
			err = s.call(t.Context(), client(t, address, prefer), known(t))
			if got := kind(err); got != wanted[code] {
				t.Errorf("%s: %d: got %v (%v), want %v", id, code, got, err, wanted[code])
			}
		}
	}
}
