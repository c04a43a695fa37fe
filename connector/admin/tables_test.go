package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/test/certs"
)

// telling is a sink that tells a status.
type telling struct {
	status any
	asked  atomic.Int32
}

func (t *telling) Unready() []string { return nil }

func (t *telling) Status() any {
	t.asked.Add(1)
	return t.status
}

// tellsAt has a member tell a status on one of the loopback addresses; port "0" chooses one.
func tellsAt(t *testing.T, at, port string, access Access, status string) (*telling, string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(at, port))
	if err != nil {
		t.Fatal(err)
	}
	sink := &telling{status: json.RawMessage(status)}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: access.guard(routes(sink, prometheus.NewRegistry())), ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return sink, port
}

// tables has a member asked for those of these addresses at one port.
func tables(t *testing.T, m Members, access Access, port string, addresses ...string) (ask func() MemberTables) {
	t.Helper()
	m.Address, m.Log = "members.example:"+port, slog.New(slog.DiscardHandler)
	m.Lookup = func(context.Context, string) ([]string, error) {
		if addresses == nil {
			return nil, &net.DNSError{Err: "no such host", Name: "members.example", IsNotFound: true}
		}
		return addresses, nil
	}
	mux := http.NewServeMux()
	m.Tables(access)(mux)
	return func() (got MemberTables) {
		t.Helper()
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/members", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("got %d, %s (%v), want 200 and JSON", w.Code, w.Body, err)
		}
		return got
	}
}

func statusOf(member string, mappings ...string) string {
	return fmt.Sprintf(`{"member":%q,"started":"2026-11-23T10:00:00.5Z","token":true,"mappings":[%s]}`, member, strings.Join(mappings, ","))
}

func TestMembersTellTheTablesThatTheyHave(t *testing.T) {
	const (
		owned   = `{"name":"customers","day":{"owned":true,"left":3}}`
		foreign = `{"name":"orders","day":{"owned":false}}`
		halted  = `{"name":"visits","halted":["refused"]}`
	)
	first, port := tellsAt(t, "127.0.0.2", freePort(t), Access{}, statusOf("feedsink-0", owned, foreign))
	tellsAt(t, "127.0.0.3", port, Access{}, statusOf("feedsink-1", foreign, halted))
	tellsAt(t, "127.0.0.4", port, Access{Token: tokenIs("another"), ProtectReads: true}, statusOf("feedsink-2", owned))
	ask := tables(t, Members{}, Access{}, port, "127.0.0.99", "127.0.0.4", "127.0.0.3", "127.0.0.2", "127.0.0.2")
	got := ask()
	var told []string
	for _, m := range got.Members {
		line := m.Address + " " + m.Member
		for _, raw := range m.Mappings {
			line += " " + strings.Join(strings.Fields(string(raw)), "")
		}
		told = append(told, strings.ReplaceAll(line, port, "8080")+" "+strings.Split(m.Error, ":")[0])
	}
	want := []string{
		"127.0.0.2:8080 feedsink-0 " + owned + " ",
		"127.0.0.3:8080 feedsink-1 " + halted + " ",
		"127.0.0.4:8080  it wants the token (admin.protectReads), which members send each other under admin.tls alone",
		"127.0.0.99:8080  dial tcp 127.0.0.99",
	}
	if !got.Known || !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
	if got.Members[0].Started != "2026-11-23T10:00:00.5Z" {
		t.Errorf("started: got %q, want it as the member tells it", got.Members[0].Started)
	}
	for range 5 {
		ask()
	}
	if n := first.asked.Load(); n != 1 {
		t.Errorf("the member was asked %d times within seconds, want once", n)
	}
}

// The token changes things, too: who has got a former member's address is not to get it.
func TestMembersGetTheTokenOnlyWhereItIsWantedAndUnderTLS(t *testing.T) {
	m := &member{at: "127.0.0.5", files: t.TempDir()}
	m.bear(t, certs.NewAuthority(t, "company").Issue(t, "ours"))
	certificate := served(t, filepath.Join(m.files, "cert.pem"), filepath.Join(m.files, "key.pem"))
	for name, c := range map[string]struct {
		members   Members
		protected bool
		want      string
	}{
		"plain HTTP, reads protected": {Members{}, true, ""},
		"plain HTTP":                  {Members{}, false, ""},
		"TLS, reads protected":        {Members{Certificate: certificate}, true, "Bearer " + token},
		"TLS":                         {Members{Certificate: certificate}, false, ""},
	} {
		var sent atomic.Value
		l, err := net.Listen("tcp", "127.0.0.5:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if c.members.Certificate != nil {
			l = tls.NewListener(l, certificate.Config())
		}
		server := &httptest.Server{Listener: l, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			sent.Store(r.Header.Get("Authorization"))
		})}}
		server.Start()
		t.Cleanup(server.Close)
		ask := tables(t, c.members, Access{Token: tokenIs(token), ProtectReads: c.protected}, port, "127.0.0.5")
		if got := ask(); !strings.HasPrefix(got.Members[0].Error, "its answer cannot be read") {
			t.Errorf("%s: an answer without JSON: got %+v, want an error", name, got.Members[0])
		}
		if got := sent.Load(); got != c.want {
			t.Errorf("%s: got the header %q, want %q", name, got, c.want)
		}
	}
}

func TestMembersThatAreNotKnownAreNone(t *testing.T) {
	mux := http.NewServeMux()
	Members{}.Tables(Access{})(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/members", nil))
	if got, want := strings.Join(strings.Fields(w.Body.String()), ""), `{"known":false,"members":[]}`; got != want {
		t.Errorf("without an address: got %s, want %s", got, want)
	}
	ask := tables(t, Members{}, Access{}, "8080")
	if got := ask(); len(got.Members) != 1 || !strings.Contains(got.Members[0].Error, "no such host") {
		t.Errorf("an address that is no host's: got %+v, want one member with the resolver's error", got)
	}
}
