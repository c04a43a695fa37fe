package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/tlsfiles"
)

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
	Certificate *tlsfiles.Server
	Log         *slog.Logger
	Lookup      func(ctx context.Context, host string) (addresses []string, err error) // nil: the system's resolver
}

// direct goes to where it is sent and nowhere else: no proxy and no redirect is to
// see the secret, and under TLS nobody but a member. Hints are too rare to keep a
// connection for.
func (m Members) direct() (scheme string, c *http.Client) {
	transport := &http.Transport{DisableKeepAlives: true}
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
func (m Members) tell(ctx context.Context, header, secret, execution string) {
	ctx, cancel := context.WithTimeout(ctx, tellFor)
	defer cancel()
	host, port, err := net.SplitHostPort(m.Address)
	if err != nil {
		m.Log.Warn("members can't be told of an execution's end; they poll", "error", err)
		return
	}
	lookup := m.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	addresses, err := lookup(ctx, host)
	if err != nil {
		m.Log.Warn("members can't be told of an execution's end; they poll", "error", err)
		return
	}
	scheme, client := m.direct()
	var all sync.WaitGroup
	for _, address := range addresses {
		all.Go(func() {
			if err := tellOne(ctx, client, scheme+net.JoinHostPort(address, port), header, secret, execution); err != nil {
				m.Log.Info("a member was not told of an execution's end; it polls", "member", address, "error", err)
			}
		})
	}
	all.Wait()
}

func tellOne(ctx context.Context, client *http.Client, member, header, secret, execution string) error {
	body, err := json.Marshal(map[string]string{"executionId": execution})
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
