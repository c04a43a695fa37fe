package admin

import (
	"crypto/tls"
	"net/http"
	"strings"

	"github.com/feedsink/feedsink/connector/tlsfiles"
)

// Access is who may reach the server, and how. Its zero value is plain HTTP for
// all who can reach the address and ask by it, or by this machine's name.
type Access struct {
	// Hosts are the names by which requests may ask for the server, besides
	// addresses, localhost and the machine's own name.
	Hosts []string
	// Token gives the token as it is now, "" if none is configured. It is asked
	// for each request that needs it. nil: none.
	Token func() (string, error)
	// ProtectReads asks for the token where nothing is changed, too.
	ProtectReads bool
	// Certificate is what the server shows; nil: plain HTTP.
	Certificate *tlsfiles.Server
}

// webhookPath has a secret of its own, which the service knows.
const webhookPath = "/webhooks/executions"

// free reports whether a request needs no token. Whatever is not named here
// needs it: probes are asked by machines without one, and reading is free unless
// reads are protected. Profiles only read as well, but they load the process; the
// service's words may be customers' data.
func (a Access) free(r *http.Request) bool {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch path := r.URL.Path; {
	case path == webhookPath:
		return true
	case read && (path == "/livez" || path == "/readyz"):
		return true
	case strings.HasPrefix(path, "/debug/"): // any other spelling is redirected
		return false
	case strings.HasPrefix(path, "/imports/") && strings.HasSuffix(path, "/"+reasonPath):
		return false
	default:
		return read && !a.ProtectReads
	}
}

// guard answers 401 to who needs the token and has none, or a wrong one. A
// browser asks for it as a password, of any user name.
func (a Access) guard(next http.Handler) http.Handler {
	if a.Token == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.free(r) {
			want, err := a.Token()
			if err != nil || want == "" || !same(tokenOf(r), want) {
				w.Header().Add("WWW-Authenticate", `Bearer realm="feedsink"`)
				w.Header().Add("WWW-Authenticate", `Basic realm="feedsink", charset="UTF-8"`)
				text(w, http.StatusUnauthorized, "the token is missing or wrong, or admin.tokenFile cannot be read; send it as Authorization: Bearer TOKEN\n")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func tokenOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// tls is the server's side of TLS, nil for none.
func (a Access) tls() *tls.Config {
	if a.Certificate == nil {
		return nil
	}
	return a.Certificate.Config()
}
