package kafka

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/tlsfiles"
)

// Connection is how the cluster is reached; consumers and the dead-letter
// producer share it.
type Connection struct {
	Brokers []string
	TLS     *tlsfiles.Files // nil: none; read again for each connection
	SASL    *SASL           // nil: none
	Log     *slog.Logger    // told of TLS files that have become unusable; nil: nobody is
	Fetched int64           // bytes of records that are fetched ahead, unpacked; 0: the default
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
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID("feedsink")}
	if c.TLS != nil {
		client, err := tlsfiles.NewClient(*c.TLS, c.Log)
		if err != nil {
			return nil, fmt.Errorf("kafka.tls.%w", err) // begins with the key
		}
		opts = append(opts, kgo.Dialer(client.Dial))
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
