package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// endpoint is one that the documentation lists, and what it answers to whom.
type endpoint struct {
	question string
	header   string // that a change wants, name: value
	token    bool   // wanted
	body     bool   // is read
	fine     int    // the answer to one who may ask
}

var endpoints = []endpoint{
	{question: "GET /livez", fine: 200},
	{question: "GET /readyz", fine: 200},
	{question: "GET /metrics", fine: 200},
	{question: "GET /status", fine: 200},
	{question: "GET /", fine: 200},
	{question: "GET /page/main.js", fine: 200},
	{question: "GET /imports", fine: 200},
	{question: "GET /imports/customers", fine: 200},
	{question: "GET /log-level", fine: 200},
	{question: "GET /history", fine: 200},
	{question: "GET /members", fine: 200},
	{question: "GET /membership", fine: 200},
	{question: "GET /imports/customers/reason", header: "X-Feedsink: imports", token: true, fine: 200},
	{question: "POST /imports/customers/release", header: "X-Feedsink: imports", token: true, fine: 202},
	{question: "POST /imports/customers/slots", header: "X-Feedsink: imports", token: true, fine: 202},
	{question: "POST /imports/customers/roll", header: "X-Feedsink: imports", token: true, fine: 202},
	{question: "POST /mappings/customers/pause", header: "X-Feedsink: mappings", token: true, fine: 202},
	{question: "POST /mappings/customers/resume", header: "X-Feedsink: mappings", token: true, fine: 202},
	{question: "POST /reload", header: "X-Feedsink: reload", token: true, fine: 200},
	{question: "POST /log-level/debug", header: "X-Feedsink: log-level", token: true, fine: 200},
	{question: "GET /debug/pprof/cmdline", token: true, fine: 200},
	{question: "POST /webhooks/executions", header: "X-Secret: s3cret", body: true, fine: 202},
}

// ask has the whole server answer a request with these headers: name: value.
func (e endpoint) ask(t *testing.T, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	method, path, _ := strings.Cut(e.question, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	whole(Access{Token: tokenIs(token)}, &oneImport{halted: true, oneLevel: oneLevel{"info"}}, func(string, string) {}).ServeHTTP(w, r)
	return w
}

func TestEveryEndpointRefusesWhatItDocuments(t *testing.T) {
	const bearer = "Authorization: Bearer " + token
	for _, e := range endpoints {
		for name, c := range map[string]struct {
			body    string
			headers []string
			asked   bool // whether the endpoint has this kind of refusal
			want    int
		}{
			"fine":               {"", []string{bearer, e.header}, true, e.fine},
			"without the token":  {"", []string{e.header}, e.token, 401},
			"with a wrong token": {"", []string{e.header, "Authorization: Bearer wrong"}, e.token, 401},
			"without the header": {"", []string{bearer}, e.header != "", 403},
			"with a wrong value": {"", []string{bearer, strings.Split(e.header+": ", ": ")[0] + ": wrong"}, e.header != "", 403},
			"a body":             {"{}", []string{bearer, e.header}, !e.body, 413},
			"a long body":        {strings.Repeat("x", maxWebhookBody+1), []string{bearer, e.header}, !e.body, 413},
			"a hint too long":    {strings.Repeat("x", maxWebhookBody+1), []string{bearer, e.header}, e.body, e.fine},
			"a zipped body":      {"{}", []string{bearer, e.header, "Content-Encoding: gzip"}, e.body, e.fine},
			"a form":             {"a=b", []string{bearer, e.header, "Content-Type: application/x-www-form-urlencoded"}, e.body, e.fine},
			"no JSON":            {"{\"id\"", []string{bearer, e.header}, e.body, e.fine}, // a hint all the same
		} {
			if !c.asked {
				continue
			}
			if got := e.ask(t, c.body, c.headers...); got.Code != c.want {
				t.Errorf("%s, %s: got %d %s, want %d", e.question, name, got.Code, got.Body, c.want)
			}
		}
		_, path, _ := strings.Cut(e.question, " ")
		if got := (endpoint{question: "DELETE " + path}).ask(t, "", bearer); got.Code != http.StatusMethodNotAllowed {
			t.Errorf("DELETE %s: got %d, want 405", path, got.Code)
		}
	}
	for _, unknown := range []struct {
		question string
		want     int
	}{
		{"GET /nowhere", 404},
		{"GET /page/admin.go", 404},
		{"GET /imports/nobody", 404},
		{"POST /imports/nobody/release", 404},
		{"POST /imports/nobody/slots", 404},
	} {
		if got := (endpoint{question: unknown.question}).ask(t, "", bearer, "X-Feedsink: imports"); got.Code != unknown.want {
			t.Errorf("%s: got %d, want %d", unknown.question, got.Code, unknown.want)
		}
	}
	if got := (endpoint{question: "POST /log-level/loud"}).ask(t, "", bearer, "X-Feedsink: log-level"); got.Code != http.StatusBadRequest {
		t.Errorf("an unknown level: got %d, want 400", got.Code)
	}
}

// TestDocumentListsTheEndpoints compares the table of paths in deploy/security.md with them.
func TestDocumentListsTheEndpoints(t *testing.T) {
	document, err := os.ReadFile("../../deploy/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(document), "\n| path |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string][]string{}
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(row, "|")
		method := ""
		for i, quoted := range strings.Split(cells[1], "`") {
			if i%2 == 1 && strings.Contains(quoted, "/") { // not a key of the configuration
				if own, path, says := strings.Cut(quoted, " "); says {
					method, quoted = own, path
				}
				rows[method+" "+quoted] = cells[2:]
			}
		}
	}
	for _, e := range endpoints {
		listed := strings.NewReplacer("customers", "MAPPING", "debug/pprof/cmdline", "debug/pprof/…", "level/debug", "level/LEVEL", "page/main.js", "page/…").Replace(e.question)
		cells, is := rows[listed]
		delete(rows, listed)
		switch {
		case !is:
			t.Errorf("%s: is not in the table of deploy/security.md", listed)
		case strings.Contains(cells[0], "always") != e.token:
			t.Errorf("%s: the table says of the token %q, want always: %v", listed, cells[0], e.token)
		case strings.HasPrefix(e.header, changeHeader) && !strings.Contains(cells[1], "`"+e.header+"`"), e.header != "" && strings.TrimSpace(cells[1]) == "":
			t.Errorf("%s: the table says that it wants %q, want %s", listed, cells[1], e.header)
		}
	}
	for listed := range rows {
		t.Errorf("%s: is in the table of deploy/security.md, and no endpoint", listed)
	}
}

func TestWhatIsNoRequestIsRefusedByTheServerItself(t *testing.T) {
	server, err := Listen("127.0.0.1:0", Access{}, quiet{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	for name, c := range map[string]struct{ sent, want string }{
		"a line that is none":     {"hello\r\n\r\n", "HTTP/1.1 400 "},
		"another version":         {"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", "HTTP/1.1 505 "},
		"no host":                 {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
		"two lengths":             {"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 400 "},
		"headers without end":     {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n", "HTTP/1.1 431 "},
		"an unknown coding":       {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: odd\r\n\r\n", "HTTP/1.1 501 "},
		"a length that is absurd": {"GET /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9223372036854775807\r\n\r\n", "HTTP/1.1 413 "},
	} {
		if got := answerTo(t, server.Address(), c.sent); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %.40q, want %s", name, got, c.want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// answerTo sends bytes and reads the beginning of what comes back.
func answerTo(t *testing.T, address, sent string) string {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte(sent)) // it may be cut off on the way
	answer := make([]byte, 64)
	n, _ := c.Read(answer) // nothing is an answer, too
	return string(answer[:n])
}
