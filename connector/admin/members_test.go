package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/security"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/test/certs"
)

// member is one of a deployment's processes, as far as hints go.
type member struct {
	at    string // its IP address
	files string // the folder of its certificate; "": plain HTTP
	heard atomic.Int32
	log   bytes.Buffer
}

// bear puts a certificate into the member's files, as a kubelet does at its own time.
func (m *member) bear(t *testing.T, pair certs.Pair) {
	t.Helper()
	certs.Write(t, filepath.Join(m.files, "key.pem"), pair.Key)
	certs.Write(t, filepath.Join(m.files, "cert.pem"), pair.Cert)
}

// freePort is one that is free at all addresses, and none of those that the system gives
// to who asks for any.
func freePort(t *testing.T) string {
	t.Helper()
	for port := 20_000 + rand.IntN(10_000); port < 32_000; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			_ = l.Close() // nothing was accepted
			return strconv.Itoa(port)
		}
	}
	t.Fatal("no port is free")
	return ""
}

// together has members listen at one port, on different addresses, as pods do, and
// returns the port. One more address is nobody's any longer.
func together(t *testing.T, all ...*member) (port string) {
	t.Helper()
	addresses, port := []string{"127.0.0.99"}, freePort(t)
	listeners := make([]net.Listener, len(all))
	for i, m := range all {
		l, err := net.Listen("tcp", net.JoinHostPort(m.at, port))
		if err != nil {
			t.Fatal(err)
		}
		addresses, listeners[i] = append(addresses, m.at), l
	}
	for i, m := range all {
		members := Members{Address: "members.example:" + port, Log: slog.New(slog.NewTextHandler(&m.log, nil))}
		members.Lookup = func(_ context.Context, host string) ([]string, error) {
			if host != "members.example" {
				t.Errorf("looked up: got %q, want members.example", host)
			}
			return addresses, nil
		}
		if m.files != "" {
			members.Certificate = served(t, filepath.Join(m.files, "cert.pem"), filepath.Join(m.files, "key.pem"))
			listeners[i] = tls.NewListener(listeners[i], members.Certificate.Config())
		}
		mux := http.NewServeMux()
		Executions("X-Secret", tokenIs("s3cret"), service.Ended, func(id, etl string) {
			if id == "17" && etl == "101" {
				m.heard.Add(1)
			}
		}, members)(mux)
		server := &httptest.Server{Listener: listeners[i], Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
		server.Start()
		t.Cleanup(server.Close)
	}
	return port
}

// called has the service call one member, and returns how often each of all has
// heard of it. The one that was called hears it twice: it is one of the members.
func called(t *testing.T, port string, at *member, all ...*member) (heard []int32) {
	t.Helper()
	scheme, transport := "http://", &http.Transport{DisableKeepAlives: true}
	if at.files != "" {
		known, err := security.Pinned(filepath.Join(at.files, "cert.pem"))
		if err != nil {
			t.Fatal(err)
		}
		scheme, transport.TLSClientConfig = "https://", known
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scheme+net.JoinHostPort(at.at, port)+webhookPath, strings.NewReader(`{"executionId":"17"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Secret", "s3cret")
	r.Header.Set(ETLHeader, "101")
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("got %s, want 202", resp.Status)
	}
	for _, m := range all {
		heard = append(heard, m.heard.Swap(0))
	}
	return heard
}

func TestEveryMemberHearsOfAnExecution(t *testing.T) {
	for name, secured := range map[string]bool{"plain HTTP": false, "TLS": true} {
		first, second := &member{at: "127.0.0.1"}, &member{at: "127.0.0.2"}
		if secured {
			shared := certs.NewAuthority(t, "company").Issue(t, "ours", "feedsink.example") // names neither address
			first.files, second.files = t.TempDir(), t.TempDir()
			first.bear(t, shared)
			second.bear(t, shared)
		}
		port := together(t, first, second)
		if got := called(t, port, first, first, second); !slices.Equal(got, []int32{2, 1}) {
			t.Errorf("%s: heard: got %d, want 2 and 1", name, got)
		}
	}
}

// Whoever has got one of the members' addresses, by its pod's end or a lie of the
// resolver, is not told anything, and above all not the secret.
func TestHintGoesToNobodyElseThanMembers(t *testing.T) {
	company := certs.NewAuthority(t, "company")
	ours := company.Issue(t, "ours", "feedsink.example")
	first, second, other := &member{at: "127.0.0.1", files: t.TempDir()}, &member{at: "127.0.0.2", files: t.TempDir()}, &member{at: "127.0.0.3", files: t.TempDir()}
	first.bear(t, ours)
	second.bear(t, ours)
	other.bear(t, company.Issue(t, "other", "127.0.0.3", "members.example"))
	plain := &member{at: "127.0.0.4"}
	port := together(t, first, second, other, plain)
	if got := called(t, port, first, first, second, other, plain); !slices.Equal(got, []int32{2, 1, 0, 0}) {
		t.Errorf("heard: got %d, want the two that have the certificate's key to", got)
	}
	for _, want := range []string{"member=127.0.0.3", "with another key", "member=127.0.0.4", "it polls"} {
		if !strings.Contains(first.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &first.log)
		}
	}
	if strings.Contains(first.log.String(), "s3cret") {
		t.Error("the log holds the secret")
	}
}

// Kubelets put a renewed certificate into the files of their pods one after the
// other.
func TestHintsPassARenewal(t *testing.T) {
	old, renewed := certs.NewAuthority(t, "a").Issue(t, "old"), certs.NewAuthority(t, "b").Issue(t, "renewed")
	first, second := &member{at: "127.0.0.1", files: t.TempDir()}, &member{at: "127.0.0.2", files: t.TempDir()}
	first.bear(t, old)
	second.bear(t, old)
	port := together(t, first, second)
	for _, step := range []struct {
		name    string
		renewed []*member
		called  *member
		want    []int32 // heard by the first and the second
	}{
		{"before", nil, first, []int32{2, 1}},
		{"the first is renewed and called", []*member{first}, first, []int32{2, 1}},
		// It cannot know the new key yet. The first one polls.
		{"the second is called, which is not", nil, second, []int32{0, 2}},
		{"both are renewed", []*member{second}, second, []int32{1, 2}},
	} {
		for _, m := range step.renewed {
			m.bear(t, renewed)
		}
		if got := called(t, port, step.called, first, second); !slices.Equal(got, step.want) {
			t.Errorf("%s: heard: got %d, want %d", step.name, got, step.want)
		}
	}
}
