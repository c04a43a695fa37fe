package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// answersAt counts the requests to a loopback address, which a handler answers; port "0"
// chooses one.
func answersAt(t *testing.T, at, port string, handler http.Handler) (asked *atomic.Int32, _ string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(at, port))
	if err != nil {
		t.Fatal(err)
	}
	asked = &atomic.Int32{}
	server := &httptest.Server{Listener: l, Config: &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		handler.ServeHTTP(w, r)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return asked, port
}

// TestMembersAreAskedWhoTheyAre by a name and by where brokers see them. Who has never
// answered is asked again after a minute only, and a name that is not found for some time
// leaves its members where they were.
func TestMembersAreAskedWhoTheyAre(t *testing.T) {
	is := func(member string) http.Handler {
		mux := http.NewServeMux()
		OwnMembership(func() Membership { return Membership{member, map[string]string{"feedsink-batch": member + "-id"}} })(mux)
		return mux
	}
	_, port := answersAt(t, "127.0.0.6", "0", is("named"))
	answersAt(t, "127.0.0.7", port, is("seen"))
	stranger, _ := answersAt(t, "127.0.0.8", port, http.NotFoundHandler())
	var lost error
	peers := Members{Address: "members.example:" + port, Lookup: func(context.Context, string) ([]string, error) {
		return []string{"127.0.0.6"}, lost
	}}.Peers(Access{}, port)
	for range 3 {
		heard := map[string]string{}
		for _, m := range peers.Ask(t.Context(), []string{"127.0.0.7", "127.0.0.8"}) {
			heard[m.Groups["feedsink-batch"]] = m.Member
		}
		if len(heard) != 2 || heard["named-id"] != "named" || heard["seen-id"] != "seen" {
			t.Errorf("heard: got %q, want the two members", heard)
		}
		lost = errors.New("no such host")
	}
	if n := stranger.Load(); n != 1 {
		t.Errorf("who does not answer was asked %d times within seconds, want once", n)
	}
}
