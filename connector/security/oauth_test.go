package security

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const clientSecret = "the-secret"

// tokenServer gives token-1, token-2 and so on to who shows the secret of now.
type tokenServer struct {
	secret atomic.Pointer[string]
	given  atomic.Int32
	scope  atomic.Pointer[string]
	life   int // seconds; 0: it does not say
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	user, secret, _ := r.BasicAuth()
	if r.FormValue("grant_type") != "client_credentials" || user != "feedsink" || secret != *s.secret.Load() {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":"invalid_client","error_description":"not %s"}`, secret)
		return
	}
	scope := r.FormValue("scope")
	s.scope.Store(&scope)
	answer := map[string]any{"access_token": fmt.Sprintf("token-%d", s.given.Add(1)), "token_type": "Bearer"}
	if s.life > 0 {
		answer["expires_in"] = s.life
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// local answers requests without a network.
type local struct{ http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Result(), nil
}

func newServer(life int) (*tokenServer, *Tokens) {
	s := &tokenServer{life: life}
	secret := clientSecret
	s.secret.Store(&secret)
	return s, NewTokens(OAuth{
		TokenURL: "https://login.example.com/token", ClientID: "feedsink", Scope: "kafka logs", Transport: local{s},
		Secret: func() (string, error) { return secret, nil },
	})
}

func TestTokenIsKeptUntilAFifthOfItsLifeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, tokens := newServer(100)
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{0, "token-1"}, {79 * time.Second, "token-1"}, {time.Second, "token-2"}, {79 * time.Second, "token-2"}} {
			time.Sleep(c.after)
			if got, err := tokens.Get(t.Context()); err != nil || got != c.want {
				t.Errorf("%v later: got %q, %v, want %s", c.after, got, err, c.want)
			}
		}
		if got := *server.scope.Load(); got != "kafka logs" {
			t.Errorf("scope: got %q, want kafka logs", got)
		}
	})
}

func TestOneRequestServesAllWhoWait(t *testing.T) {
	server, tokens := newServer(100)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if _, err := tokens.Get(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := server.given.Load(); got != 1 {
		t.Errorf("tokens given: got %d, want 1", got)
	}
}

func TestTokenWithoutAnEndIsNotKept(t *testing.T) {
	_, tokens := newServer(0)
	for _, want := range []string{"token-1", "token-2"} {
		if got, err := tokens.Get(t.Context()); err != nil || got != want {
			t.Errorf("got %q, %v, want %s", got, err, want)
		}
	}
}

func TestTokenServesWhileNoOtherIsToBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, tokens := newServer(100)
		if _, err := tokens.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := "another"
		server.secret.Store(&other)
		time.Sleep(90 * time.Second)
		if got, err := tokens.Get(t.Context()); err != nil || got != "token-1" {
			t.Errorf("while it is good: got %q, %v, want token-1", got, err)
		}
		time.Sleep(10 * time.Second)
		_, err := tokens.Get(t.Context())
		if err == nil || !strings.Contains(err.Error(), "token from https://login.example.com/token: 401 Unauthorized: invalid_client") {
			t.Errorf("after its end: got %v, want the address, the status and the code", err)
		} else if strings.Contains(err.Error(), clientSecret) {
			t.Errorf("the error holds the secret: %v", err)
		}
	})
}

func TestSecretGoesNowhereElse(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	tokens := NewTokens(OAuth{TokenURL: server.URL, ClientID: "feedsink", Secret: func() (string, error) { return clientSecret, nil }})
	if _, err := tokens.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("got %v, want that a redirect is not followed", err)
	}
	if got := elsewhere.Load(); got != 0 {
		t.Errorf("followed %d redirects, want none", got)
	}
}

func TestUnreadableSecretIsSaid(t *testing.T) {
	gone := errors.New("read secret: gone")
	tokens := NewTokens(OAuth{TokenURL: "https://login", Secret: func() (string, error) { return "", gone }})
	if _, err := tokens.Get(t.Context()); !errors.Is(err, gone) {
		t.Errorf("got %v, want why the secret cannot be read", err)
	}
}
