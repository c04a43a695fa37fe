package sandbox

import (
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// tokens knows which keys may have tokens and which tokens are out.
type tokens struct {
	mu   sync.Mutex
	keys map[string][]int // the operations that a key has the right to; nil: all
	out  map[string]grant // by token
}

type grant struct {
	key  string
	ends time.Time
}

// valid checks the Authorization header of a call, and whether its key has the
// right to the operation.
func (t *tokens) valid(header string, op int, now time.Time) (valid, allowed bool) {
	token, bearer := strings.CutPrefix(header, "Bearer ")
	if !bearer {
		return false, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g, known := t.out[token]
	if !known || !now.Before(g.ends) {
		return false, false
	}
	rights := t.keys[g.key]
	return true, rights == nil || slices.Contains(rights, op)
}

// issue makes a token for a key; ok is false when the key is wrong or revoked.
func (t *tokens) issue(key string, now time.Time, lifetime time.Duration) (token string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.keys[key]; !known {
		return "", false
	}
	maps.DeleteFunc(t.out, func(_ string, g grant) bool { return !now.Before(g.ends) })
	token = rand.Text()
	t.out[token] = grant{key: key, ends: now.Add(lifetime)}
	return token, true
}

// AllowKey makes operation 14 accept a key, with the right to these operations,
// or to all where none is given. Tokens that the key has get the same rights.
func (s *Sandbox) AllowKey(key string, operations ...int) {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	s.tokens.keys[key] = operations
}

// RevokeKey makes operation 14 refuse a key and ends the tokens made for it.
func (s *Sandbox) RevokeKey(key string) {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	delete(s.tokens.keys, key)
	maps.DeleteFunc(s.tokens.out, func(_ string, g grant) bool { return g.key == key })
}

// RevokeTokens ends every token. Keys stay good.
func (s *Sandbox) RevokeTokens() {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	clear(s.tokens.out)
}

// issueToken is operation 14. The key stands bare in the header.
func (s *Sandbox) issueToken(r *http.Request, _ *call) (apply, error) {
	key := r.Header.Get("Authorization")
	return func() (answer, error) {
		token, good := s.tokens.issue(key, s.conf.Now(), s.conf.TokenLifetime)
		if !good {
			return answer{}, refuse(http.StatusUnauthorized, "the API key is wrong or revoked")
		}
		return answerOK(map[string]string{
			"accessToken": token,
			"tokenType":   "bearer",
			"expiresIn":   wholeSeconds(s.conf.TokenLifetime) + "s",
			"scope":       "read write",
			"jti":         rand.Text(),
		}), nil
	}, nil
}
