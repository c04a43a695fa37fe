package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/security"
)

// maxWebhookBody is as much of a webhook call as is read, in bytes. The shape of
// the body is not shown in the service's document; an id is looked for in it.
const maxWebhookBody = 64 << 10

// ETLHeader names the ETL whose execution has ended, where a subscription has it.
const ETLHeader = "X-Feedsink-ETL"

// Executions adds POST /webhooks/executions, which the service calls when an
// execution has ended. The call is answered with 202 if the named header holds
// the secret and with 403 otherwise, or if there is no secret. It is only ever
// a hint to poll, whatever its body: hint gets the execution's id, as ended finds it there, or ""
// if it names none, is compressed, a web form's or too long, and must not believe it; and the ETL's, which ETLHeader names as the
// subscription has it, or else the body. The other members are told as well, unless the address
// of members is empty.
func Executions(header string, secret func() (string, error), ended func(body []byte) (execution, etl string), hint func(execution, etl string), members Members) Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("POST "+webhookPath, func(w http.ResponseWriter, r *http.Request) {
			want, err := secret()
			if err != nil || want == "" || !same(r.Header.Get(header), want) {
				text(w, http.StatusForbidden, "webhook: the shared secret is missing or wrong, or none is configured (admin.webhook)\n")
				return
			}
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWebhookBody))
			var execution, etl string
			if err == nil && readable(r.Header) {
				execution, etl = ended(body)
			}
			etl = cmp.Or(r.Header.Get(ETLHeader), etl)
			hint(execution, etl)
			if members.Address != "" && r.Header.Get(forwarded) == "" {
				members.tell(r.Context(), header, want, execution, etl)
			}
			w.WriteHeader(http.StatusAccepted)
		})
	}
}

// readable reports whether a body may be looked into. The service's document does
// not say how its own is labelled, so only what cannot be meant is not.
func readable(h http.Header) bool {
	kind, _, _ := strings.Cut(strings.ToLower(h.Get("Content-Type")), ";")
	form := strings.TrimSpace(kind) == "application/x-www-form-urlencoded" || strings.HasPrefix(kind, "multipart/")
	coding := h.Get("Content-Encoding")
	return !form && (coding == "" || strings.EqualFold(coding, "identity"))
}

// same compares in a time that tells nothing, not even a length.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// forwarded marks a webhook call that comes from another member, which is not
// passed on again.
const forwarded = "X-Feedsink-Forwarded"

// tellFor bounds how long the webhook's caller waits for the members to hear.
const tellFor = 3 * time.Second

// Members are the other processes of the deployment: the service calls one of
// them, and one of them waits for the import.
type Members struct {
	Address string // host:port; the host's name resolves to every member
	// Certificate is the one that every member shows, this one too: it is how they
	// know each other. nil: they speak plain HTTP.
	Certificate *security.TLSServer
	Log         *slog.Logger
	Lookup      func(ctx context.Context, host string) (addresses []string, err error) // nil: the system's resolver
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)   // nil: net.Dialer
}

// direct goes to where it is sent and nowhere else: no proxy and no redirect is to
// see the secret, and under TLS only a member. Hints are too rare to keep a
// connection for.
func (m Members) direct() (scheme string, c *http.Client) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: m.Dial}
	scheme = "http://"
	if m.Certificate != nil {
		scheme, transport.TLSClientConfig = "https://", m.Certificate.Siblings()
	}
	return scheme, &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tell passes a hint on to every member, ourselves included, and returns when
// they have it or the time is over. One that cannot be reached learns it by its
// next poll.
func (m Members) tell(ctx context.Context, header, secret, execution, etl string) {
	ctx, cancel := context.WithTimeout(ctx, tellFor)
	defer cancel()
	addresses, err := m.addresses(ctx)
	if err != nil {
		m.Log.Warn("members can't be told of an execution's end; they poll", "error", err)
		return
	}
	scheme, client := m.direct()
	var all sync.WaitGroup
	for _, address := range addresses {
		all.Go(func() {
			if err := tellOne(ctx, client, scheme+address, header, secret, execution, etl); err != nil {
				m.Log.Info("a member was not told of an execution's end; it polls", "member", address, "error", err)
			}
		})
	}
	all.Wait()
}

func tellOne(ctx context.Context, client *http.Client, member, header, secret, execution, etl string) error {
	body, err := json.Marshal(map[string]string{"executionId": execution, "etlId": etl})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, member+webhookPath, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	r.Header.Set(header, secret)
	r.Header.Set(forwarded, "1")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%s: it answers %s", member, resp.Status)
	}
	return nil
}
