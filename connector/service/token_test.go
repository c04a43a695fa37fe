package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestManyCallsWithAnExpiredTokenFetchOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 200
		var gate sync.WaitGroup // all calls arrive before any is answered
		s := &service{revoked: func(token string) bool {
			if token != "T1" {
				return false
			}
			gate.Done()
			gate.Wait()
			return true
		}}
		s.calls = func(http.ResponseWriter, *http.Request) {}
		c := s.startInBubble(t)
		if err := c.Authenticate(t.Context()); err != nil {
			t.Fatal(err)
		}
		gate.Add(calls)
		var done sync.WaitGroup
		var failed atomic.Int64
		for range calls {
			done.Go(func() {
				if err := c.DeleteRecord(t.Context(), "orders", "k"); err != nil {
					failed.Add(1)
				}
			})
		}
		done.Wait()
		if n := s.fetches.Load(); n != 2 || failed.Load() != 0 {
			t.Errorf("got %d token requests and %d failed calls, want 2 (the first, one renewal) and none", n, failed.Load())
		}
	})
}

func TestTokenIsRenewedBeforeItExpires(t *testing.T) {
	for _, life := range []string{"3s", "900s"} {
		synctest.Test(t, func(t *testing.T) {
			issued := map[string]time.Time{}
			s := &service{life: life}
			length, _ := time.ParseDuration(life)
			s.revoked = func(token string) bool {
				if _, ok := issued[token]; !ok {
					issued[token] = time.Now()
				}
				if time.Since(issued[token]) >= length {
					t.Errorf("life %s: a token was used after %v", life, time.Since(issued[token]))
				}
				return false
			}
			s.calls = func(http.ResponseWriter, *http.Request) {}
			c := s.startInBubble(t)
			const steps = 100
			for range steps {
				if err := c.DeleteRecord(t.Context(), "orders", "k"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(length / 10)
			}
			// 100 tenths of a life, each token used for eight of them.
			if n := s.fetches.Load(); n != 13 {
				t.Errorf("life %s: got %d token requests, want 13", life, n)
			}
		})
	}
}

func TestOldTokenServesWhileTheNextIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &service{life: "100s"}
		s.calls = func(http.ResponseWriter, *http.Request) {}
		s.refuse = func(http.ResponseWriter) bool {
			if s.fetches.Load() > 1 {
				<-release
			}
			return false
		}
		c := s.startInBubble(t)
		if err := c.Authenticate(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(85 * time.Second)
		var leader sync.WaitGroup
		leader.Go(func() { _ = c.Authenticate(t.Context()) })
		synctest.Wait()
		start := time.Now()
		if err := c.DeleteRecord(t.Context(), "orders", "k"); err != nil || time.Since(start) != 0 {
			t.Errorf("got %v after %v, want success at once", err, time.Since(start))
		}
		close(release)
		leader.Wait()
	})
}

func TestWaitingForATokenHonoursEachContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		s.calls = func(http.ResponseWriter, *http.Request) {}
		s.refuse = func(http.ResponseWriter) bool {
			time.Sleep(10 * time.Second)
			return false
		}
		c := s.startInBubble(t)
		leading, cancelLeader := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancelLeader()
		impatient, cancelImpatient := context.WithTimeout(t.Context(), time.Second)
		defer cancelImpatient()

		var calls sync.WaitGroup
		calls.Go(func() {
			if err := c.Authenticate(leading); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("leader: got %v, want its own deadline", err)
			}
		})
		synctest.Wait()
		calls.Go(func() {
			start := time.Now()
			err := c.Authenticate(impatient)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
				t.Errorf("impatient: got %v after %v, want its own deadline", err, time.Since(start))
			}
		})
		calls.Go(func() {
			if err := c.Authenticate(t.Context()); err != nil {
				t.Errorf("patient: got %v, want a token though the first fetch was canceled", err)
			}
		})
		calls.Wait()
	})
}

func TestFailedTokenRequestHoldsBackTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{key: func(string) bool { return false }}
		c := s.startInBubble(t)
		for range 600 { // a minute of a call every 100 ms
			err := c.DeleteRecord(t.Context(), "orders", "k")
			e := errorOf(t, err)
			if e.Kind() != Unauthorized || !e.Transient() || e.Unknown() || e.Status() != http.StatusUnauthorized {
				t.Fatalf("got %v (%v), want unauthorized", e, e.Kind())
			}
			if strings.Contains(err.Error()+e.Reason(), testKey) {
				t.Fatalf("got %q, which holds the API key", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		// 0.1 + 0.2 + 0.4 + … and then every 5 s.
		if n := s.fetches.Load(); n < 10 || n > 20 {
			t.Errorf("got %d token requests in a minute, want 10 to 20", n)
		}
		if c.TokenOK() {
			t.Error("TokenOK: got true after failures")
		}
		if got := c.TokenRefused(); got != http.StatusUnauthorized {
			t.Errorf("TokenRefused: got %d, want 401", got)
		}
		s.key = func(string) bool { return true }
		time.Sleep(maxHold)
		if err := c.Authenticate(t.Context()); err != nil || c.TokenRefused() != 0 {
			t.Errorf("a key that is right again: got %v and TokenRefused %d, want none", err, c.TokenRefused())
		}
	})
}

func TestHeldBackErrorSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		s := &service{refuse: func(w http.ResponseWriter) bool {
			if down {
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return down
		}}
		c := s.startInBubble(t)
		_ = c.Authenticate(t.Context())
		time.Sleep(5 * time.Second)
		e := errorOf(t, c.Authenticate(t.Context()))
		if e.RetryAfter() != 15*time.Second || s.fetches.Load() != 1 {
			t.Errorf("got Retry-After %v after %d requests, want 15s after one", e.RetryAfter(), s.fetches.Load())
		}
		next := s.startInBubble(t) // after a reload
		next.TakeToken(c)
		if e := errorOf(t, next.Authenticate(t.Context())); e.RetryAfter() != 15*time.Second || s.fetches.Load() != 1 {
			t.Errorf("by the client that follows: got Retry-After %v after %d requests, want 15s after one", e.RetryAfter(), s.fetches.Load())
		}
		down = false
		time.Sleep(e.RetryAfter())
		if err := c.Authenticate(t.Context()); err != nil || !c.TokenOK() {
			t.Errorf("got %v, TokenOK %v; want a token", err, c.TokenOK())
		}
	})
}

func TestFailedRenewalUsesTheOldTokenUpToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{life: "100s"}
		s.calls = func(http.ResponseWriter, *http.Request) {}
		s.refuse = func(w http.ResponseWriter) bool {
			if s.fetches.Load() == 1 {
				return false
			}
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		c := s.startInBubble(t)
		start := time.Now()
		var last time.Duration
		for c.DeleteRecord(t.Context(), "orders", "k") == nil {
			last = time.Since(start)
			time.Sleep(time.Second)
		}
		if last != 99*time.Second {
			t.Errorf("calls succeeded for %v, want 99s", last)
		}
	})
}

func TestSecondRefusalOfACallIsUnauthorized(t *testing.T) {
	s := &service{revoked: func(string) bool { return true }}
	c := s.start(t)
	err := c.DeleteRecord(t.Context(), "orders", "k")
	e := errorOf(t, err)
	if e.Kind() != Unauthorized || e.Unknown() || s.fetches.Load() != 2 {
		t.Errorf("got %v (%v) after %d tokens, want unauthorized after 2", e, e.Kind(), s.fetches.Load())
	}
	if strings.Contains(e.Reason(), "T2") {
		t.Errorf("got reason %q, which holds the token", e.Reason())
	}
}

func TestRequestBehindAnotherOneOfItsAttemptAsksFirst(t *testing.T) {
	errLost := errors.New("another member has it")
	for name, c := range map[string]struct {
		token, revoked bool // before the attempt
		may            error
		asked, served  int
	}{
		"at once":                    {true, false, errLost, 0, 1},
		"behind a token":             {false, false, errLost, 1, 0},
		"behind a refusal":           {true, true, errLost, 1, 0},
		"behind a token, and it may": {false, false, nil, 1, 1},
		"behind a refusal, it may":   {true, true, nil, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked, served := 0, 0
			s := &service{revoked: func(token string) bool { return c.revoked && token == "T1" }}
			s.calls = func(http.ResponseWriter, *http.Request) { served++ }
			client := s.start(t)
			if c.token {
				if err := client.Authenticate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			err := client.While(func() error { asked++; return c.may }).DeleteRecord(t.Context(), "orders", "k")
			if asked != c.asked || served != c.served || (err == nil) != (c.served > 0) || err != nil && !errors.Is(err, errLost) {
				t.Errorf("got asked %d times, %d calls served and %v, want %d and %d", asked, served, err, c.asked, c.served)
			}
		})
	}
}

func TestLateRefusalOfAnOldTokenKeepsTheNewOne(t *testing.T) {
	s := &service{}
	c := s.start(t)
	if err := c.Authenticate(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := c.tokens.current.Load()
	c.tokens.drop(old)
	if err := c.Authenticate(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := c.tokens.current.Load()
	c.tokens.drop(old)
	if got := c.tokens.current.Load(); got != fresh {
		t.Error("the new token was dropped for the old one")
	}
}

func TestTokenEndpointNeverRejects(t *testing.T) {
	for _, status := range []int{400, 403, 404, 409, 418} {
		s := &service{refuse: func(w http.ResponseWriter) bool {
			w.WriteHeader(status)
			return true
		}}
		if e := errorOf(t, s.start(t).DeleteRecord(t.Context(), "orders", "k")); e.Kind() != Unauthorized || e.op != opToken {
			t.Errorf("%d: got %v (%v), want unauthorized", status, e, e.Kind())
		}
	}
}

func TestAnswerWithoutATokenIsNotQuoted(t *testing.T) {
	s := &service{refuse: func(w http.ResponseWriter) bool {
		_, _ = io.WriteString(w, `{"token":"precious"}`)
		return true
	}}
	err := s.start(t).Authenticate(t.Context())
	if e := errorOf(t, err); !e.Transient() || strings.Contains(err.Error()+e.Reason(), "precious") {
		t.Errorf("got %v, want a transient error without the answer", err)
	}
}
