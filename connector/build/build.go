package build

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/h1"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/security"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// KafkaConnection is how the cluster is reached, from the configuration. What it
// holds of files is read again when they change; log is told of files that have
// become unusable.
func KafkaConnection(k config.Kafka, log *slog.Logger) cluster.Connection {
	c := cluster.Connection{Brokers: k.Brokers, Log: log}
	if k.TLS.Enabled {
		c.TLS = &security.TLSFiles{CAFile: k.TLS.CAFile, CertFile: k.TLS.CertFile, KeyFile: k.TLS.KeyFile}
	}
	if k.SASL.Mechanism != "" {
		c.SASL = login(k.SASL, log)
	}
	return c
}

func login(s config.SASL, log *slog.Logger) *cluster.SASL {
	return &cluster.SASL{
		Mechanism: s.Mechanism, Username: s.Username, Password: Reveal(config.SecretFile(s.PasswordFile)),
		Token: bearer(s.OAuth, log), Extensions: extensions(s.OAuth.Extensions),
		Keys: security.NewAWS().Get,
	}
}

// bearer gives the tokens of OAUTHBEARER.
func bearer(o config.OAuth, log *slog.Logger) func(context.Context) (string, error) {
	if o.TokenFile != "" {
		token := Reveal(config.SecretFile(o.TokenFile))
		return func(context.Context) (string, error) { return token() }
	}
	transport, err := secured(o.TLS, nil, log)
	if err != nil {
		err = fmt.Errorf("kafka.sasl.oauth.tls.%w", err)
		return func(context.Context) (string, error) { return "", err }
	}
	return security.NewTokens(security.OAuth{
		TokenURL: o.TokenURL, ClientID: o.ClientID, Secret: Reveal(config.SecretFile(o.ClientSecretFile)), Scope: o.Scope, Transport: transport,
	}).Get
}

func extensions(pairs []string) map[string]string {
	named := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		named[name] = value
	}
	return named
}

// Reveal reads a secret as text.
func Reveal(read func() (config.Secret, error)) func() (string, error) {
	return func() (string, error) {
		secret, err := read()
		return secret.Reveal(), err
	}
}

// secured is the usual transport with the certificates of the configuration.
func secured(c config.Certificates, dial cluster.Dial, log *slog.Logger) (http.RoundTripper, error) {
	usual := http.DefaultTransport.(*http.Transport).Clone()
	if dial != nil {
		usual.DialContext = dial
	}
	client, err := security.NewTLSClient(security.TLSFiles(c), log)
	if err != nil {
		return nil, err // begins with the key
	}
	return client.Transport(usual), nil
}

// registryClient asks the schema registry. A redirect may lead to another path
// of it, but takes the login nowhere else.
func registryClient(c config.Certificates, dial cluster.Dial, log *slog.Logger) (*http.Client, error) {
	transport, err := secured(c, dial, log)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport, Timeout: schemaTimeout, CheckRedirect: stay}, nil
}

var (
	errUnavailable = errors.New("a redirect to another host is not followed: the request may hold a login")
	errRound       = errors.New("more than five redirects")
)

func stay(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	switch {
	case next.URL.Scheme != first.Scheme || next.URL.Host != first.Host:
		return errUnavailable
	case len(before) > 5:
		return errRound
	}
	return nil
}

// NewService is a client of the configured service, for one command. Who asked
// for it closes it.
func NewService(cfg config.Service) (*service.Client, error) { return ServiceWith(cfg, nil, nil, nil) }

// ServiceWith tells log of TLS files that have become unusable, wraps the transport,
// and opens connections by dial; nil: net.Dialer.
func ServiceWith(cfg config.Service, log *slog.Logger, wrap func(http.RoundTripper) http.RoundTripper, dial cluster.Dial) (*service.Client, error) {
	certificates, err := security.NewTLSClient(security.TLSFiles(cfg.TLS), log)
	if err != nil {
		return nil, fmt.Errorf("service.tls.%w", err) // begins with the key
	}
	key := Reveal(cfg.Key())
	client, err := service.New(service.Config{
		BaseURL: cfg.BaseURL,
		AuthURL: cfg.AuthURL,
		Entity:  cfg.Entity,
		APIKey: func() (service.Secret, error) {
			text, err := key()
			return service.NewSecret(text), err
		},
		Timeout:     cfg.Timeout,
		Concurrency: cfg.Concurrency.Max,
		Wrap:        wrap,
		Dial:        dial,
		Secure: func(tuned *http.Transport) http.RoundTripper {
			if !cfg.Proxy.IsZero() {
				tuned.Proxy = through(cfg.Proxy)
			}
			if cfg.TLS == (config.Certificates{}) {
				return h1.New(tuned) // nothing to follow
			}
			return certificates.TransportOver(tuned, func(t *http.Transport) security.Connections { return h1.New(t) })
		},
	})
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	return client, nil
}

// through sends every request through one proxy.
func through(proxy config.Address) func(*http.Request) (*url.URL, error) {
	address, err := url.Parse(proxy.Reveal())
	if err != nil {
		// The parser's error quotes the address, with its password.
		return func(*http.Request) (*url.URL, error) { return nil, errors.New("service.proxy: not an address") }
	}
	return http.ProxyURL(address)
}

// AdminAccess is who may reach the admin server, and how.
func AdminAccess(cfg config.Admin, log *slog.Logger) (a admin.Access, err error) {
	a.Hosts, a.ProtectReads = cfg.Hosts, cfg.ProtectReads
	if cfg.TokenFile != "" {
		a.Token = Reveal(config.SecretFile(cfg.TokenFile))
	}
	if cfg.TLS.CertFile != "" {
		a.Certificate, err = security.NewTLSServer(security.TLSFiles{CertFile: cfg.TLS.CertFile, KeyFile: cfg.TLS.KeyFile}, log)
		if err != nil {
			return a, fmt.Errorf("admin.tls.%w", err) // begins with the key
		}
	}
	return a, nil
}

// NewDeadLetters is the producer of dead letters, by that connection. The caller
// closes it.
func NewDeadLetters(cfg *config.Config, over cluster.Connection, log *slog.Logger) (*deadletter.Post, error) {
	opts, err := over.Options()
	if err != nil {
		return nil, err
	}
	return deadletter.New(opts, cfg.DLQ.Topic, cfg.Kafka.Group, log)
}

// NewReceipts is the producer of receipts and the hash of their keys, by that connection;
// nil where the configuration names no topic. The caller closes it.
func NewReceipts(cfg *config.Config, over cluster.Connection, random *rand.Rand, log *slog.Logger) (*receipt.Book, error) {
	if cfg.Receipts.Topic == "" {
		return nil, nil //nolint:nilnil // nothing to be opened, and nothing wrong
	}
	keys, err := ReceiptKeys(cfg, log)
	if err != nil {
		return nil, err
	}
	opts, err := over.Options()
	if err != nil {
		return nil, err
	}
	writer, err := receipt.NewWriter(opts, cfg.Receipts.Topic, random, log)
	return &receipt.Book{Keys: keys, Writer: writer}, err
}

// ReceiptKeys hashes keys as receipts have them: not at all without a secret's file.
func ReceiptKeys(cfg *config.Config, log *slog.Logger) (*receipt.Keys, error) {
	var read func() (string, error)
	if cfg.Receipts.KeyFile != "" {
		read = Reveal(config.SecretFile(cfg.Receipts.KeyFile))
	}
	keys, err := receipt.NewKeys(read, log)
	if err != nil {
		return nil, fmt.Errorf("receipts.keyFile: %w", err)
	}
	return keys, nil
}

// NewRegistry fills in what the configuration says of the registry; nil where
// it names none. A nil dial is net.Dialer's.
func NewRegistry(cfg *config.Config, random *rand.Rand, dial cluster.Dial, into schemas.RegistryConfig) (*schemas.Registry, error) {
	from := cfg.SchemaRegistry
	if from.URL.IsZero() {
		return nil, nil //nolint:nilnil // nothing to be opened, and nothing wrong
	}
	backoff := retry.Backoff{Initial: cfg.Retry.Initial, Max: cfg.Retry.Max}
	into.Backoff = func(failures int) time.Duration { return backoff.Next(failures, 0, random.Float64) }
	var err error
	if into.HTTP, err = registryClient(from.TLS, dial, into.Log); err != nil {
		return nil, fmt.Errorf("schemaRegistry.tls.%w", err) // begins with the key
	}
	into.URL, into.Validate = from.URL.String(), from.Validate
	if login := from.Login(); login != nil {
		into.Login = func() (string, string, error) {
			user, password, err := login()
			return user, password.Reveal(), err
		}
	}
	return schemas.NewRegistry(into)
}

// schemaTimeout bounds a request for a schema, which a few of the lane's
// partitions may be waiting for.
const schemaTimeout = 10 * time.Second
