package source

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

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
	}
	return nil, fmt.Errorf("kafka.sasl.mechanism: %q is not supported by this version; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism)
}

func (s *SASL) scram(context.Context) (scram.Auth, error) {
	password, err := s.Password()
	return scram.Auth{User: s.Username, Pass: password}, err
}
