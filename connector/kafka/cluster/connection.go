// Package cluster reaches a Kafka cluster beside any consumer group: how it is connected
// to, what its topics hold, what groups have committed, and reading records without a
// member of any group noticing it. It knows nothing of lanes and assignments.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/feedsink/feedsink/connector/security"
)

// Connection is how the cluster is reached; consumers and the dead-letter
// producer share it.
type Connection struct {
	Brokers []string
	TLS     *security.TLSFiles // nil: none; read again for each connection
	SASL    *SASL              // nil: none
	Log     *slog.Logger       // told of TLS files that have become unusable; nil: they are not logged
	Fetched int64              // bytes of records that are fetched ahead, unpacked; 0: the default
	Dial    Dial               // connects where there is no TLS; nil: net.Dialer
}

// Dial opens a connection, as net.Dialer's DialContext does.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// DefaultFetched is how many bytes of records are fetched ahead.
const DefaultFetched = 32 << 20

// NewClient is a client for a member of a group, or one that fetches nothing. It
// connects to nothing yet: an error is one of configuration.
func (c Connection) NewClient(opts ...kgo.Opt) (*kgo.Client, error) {
	own, err := c.Options()
	if err != nil {
		return nil, err
	}
	return newFetchSize(c.Fetched, groupFetch).newClient(append(own, opts...)...)
}

// SASL authenticates. What it holds as a function is asked for whenever a broker
// wants to know who is there, which is at each new connection and, where the
// broker limits sessions, again and again: a changed secret is taken up.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM

	Username string // of PLAIN and SCRAM
	Password func() (string, error)

	Token      func(context.Context) (string, error) // of OAUTHBEARER
	Extensions map[string]string                     // sent with the token

	Keys func(context.Context) (access, secret, session string, err error) // of AWS_MSK_IAM
}

// Options are the client options for the connection. Errors name the file or
// mechanism that cannot work.
func (c Connection) Options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID("feedsink"), kgo.MinVersions(oldest())}
	if c.Dial != nil {
		opts = append(opts, kgo.Dialer(c.Dial))
	}
	if c.TLS != nil {
		client, err := security.NewTLSClient(*c.TLS, c.Log)
		if err != nil {
			return nil, fmt.Errorf("kafka.tls.%w", err) // begins with the key
		}
		opts = append(opts, kgo.Dialer(greeted(client.Dial)))
	}
	if c.SASL != nil {
		mechanism, err := c.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// errClosedTLS is what a listener without TLS comes to that closes on what it cannot read.
var errClosedTLS = errors.New("the connection was closed during the greeting of TLS")

// greeted tells a connection that fails while TLS begins from one that fails later.
func greeted(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			err = fmt.Errorf("%w: %w", errClosedTLS, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", errSilentTLS, err)
		}
		return conn, err
	}
}

// oldest is what brokers must know: Kafka 0.11, the first with headers, which dead letters
// need, and with transactions, whose aborted records must not be read.
func oldest() *kversion.Versions {
	v := &kversion.Versions{}
	v.SetMaxKeyVersion(int16(kmsg.Produce), 3)
	v.SetMaxKeyVersion(int16(kmsg.Fetch), 4)
	return v
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.Password()
			return plain.Auth{User: s.Username, Pass: password}, err
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(s.scram), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(s.scram), nil
	case "OAUTHBEARER":
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := s.Token(ctx)
			return oauth.Auth{Token: token, Extensions: s.Extensions}, err
		}), nil
	case "AWS_MSK_IAM":
		return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) {
			access, secret, session, err := s.Keys(ctx)
			return aws.Auth{AccessKey: access, SecretKey: secret, SessionToken: session, UserAgent: "feedsink"}, err
		}), nil
	}
	return nil, fmt.Errorf("kafka.sasl.mechanism: %q is unknown; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM", s.Mechanism)
}

func (s *SASL) scram(context.Context) (scram.Auth, error) {
	password, err := s.Password()
	return scram.Auth{User: s.Username, Pass: password}, err
}
