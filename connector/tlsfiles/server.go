package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Server is the answering side, which shows CertFile. It may be used concurrently.
type Server struct{ pair *followed[*tls.Certificate] }

// NewServer reads the files for the first time; an error is an *Error. CAFile has
// no part in it. Files that later cannot be used are told to log, and what they
// held before goes on being shown.
func NewServer(files Files, log *slog.Logger) (*Server, error) {
	s := &Server{pair: files.pair()}
	s.pair.log = log
	if _, err := s.pair.get(); err != nil {
		return nil, err
	}
	return s, nil
}

// Config is for answering. The certificate is that of each handshake.
func (s *Server) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.get() },
	}
}

// renewing is how long after a renewal a process may still show the certificate
// of before: a kubelet takes up to two minutes to put a changed Secret into the
// files of its pods. A key that was withdrawn because somebody took it is good
// for no longer than that.
const renewing = 10 * time.Minute

// Siblings is for calling processes that show the same certificate as this one.
// They are known by its key and not by a name that an authority vouches for.
// Such processes are found by the addresses of pods, which no certificate
// names; and an authority vouches for many others, while the key is theirs alone:
// whoever ends the handshake has it.
//
// For ten minutes after a renewal the key of before is taken as well. The other
// way round a sibling that has been renewed first stays unknown until this
// process' own files have changed, unless the renewal kept the key.
func (s *Server) Siblings() *tls.Config {
	return pinned(func() ([]*x509.Certificate, error) {
		pairs, err := s.pair.within(renewing)
		if err != nil {
			return nil, err
		}
		known := make([]*x509.Certificate, len(pairs))
		for i, pair := range pairs {
			known[i] = pair.Leaf
		}
		return known, nil
	})
}

// Known is for calling the process that shows the certificate in certFile, by
// whatever name it is reached; an error is an *Error. The file is read once, and
// the key that belongs to it is not needed.
func Known(certFile string) (*tls.Config, error) {
	data, err := read("certFile", certFile)
	if err != nil {
		return nil, err
	}
	leaf, err := firstCertificate(data)
	if err != nil {
		return nil, &Error{"certFile", certFile, fmt.Errorf("%s: %w", certFile, err)}
	}
	return pinned(func() ([]*x509.Certificate, error) { return []*x509.Certificate{leaf}, nil }), nil
}

// firstCertificate is the one that a server shows as its own; those after it lead
// to its authority.
func firstCertificate(data []byte) (*x509.Certificate, error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil, errors.New("holds no certificate in PEM form")
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}

// pinned believes whoever has the key of a known certificate, and nobody else.
func pinned(known func() ([]*x509.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // names and authorities; VerifyConnection asks for the key, and the handshake proves that the other side has it
		VerifyConnection: func(state tls.ConnectionState) error {
			certificates, err := known()
			if err != nil {
				return err
			}
			for _, c := range certificates {
				if bytes.Equal(c.RawSubjectPublicKeyInfo, state.PeerCertificates[0].RawSubjectPublicKeyInfo) {
					return nil
				}
			}
			return errors.New("the other side shows a certificate with another key than the one known here")
		},
	}
}
