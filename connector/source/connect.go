package source

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Connection is how the cluster is reached; consumers and the dead-letter
// producer share it.
type Connection struct {
	Brokers []string
	TLS     *TLS
	SASL    *SASL
}

// TLS secures the connection. All fields are paths of PEM files and optional.
type TLS struct{ CAFile, CertFile, KeyFile string }

// SASL authenticates. Password is asked for at each new connection, so that a
// changed secret file is taken up.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	Username  string
	Password  func() (string, error)
}

// Options are the client options for the connection. Errors name the file or
// mechanism that cannot work.
func (c Connection) Options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID("feedsink")}
	if c.TLS != nil {
		config, err := c.TLS.config()
		if err != nil {
			return nil, err
		}
		dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: config}
		opts = append(opts, kgo.Dialer(dialer.DialContext))
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

func (t *TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("kafka.tls.caFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("kafka.tls.caFile: %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile == "" {
		return config, nil
	}
	if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
		return nil, fmt.Errorf("kafka.tls.certFile, keyFile: %w", err)
	}
	// Read at each handshake, so that a renewed certificate is taken up.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		return &pair, err
	}
	return config, nil
}
