package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// The session timeouts that a broker takes unless it was told otherwise
// (group.min.session.timeout.ms, group.max.session.timeout.ms).
const (
	minSession = 6 * time.Second
	maxSession = 30 * time.Minute
)

// mechanisms are the SASL mechanisms that the Kafka side speaks.
var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

func (r *rules) kafka(k *Kafka) {
	if len(k.Brokers) == 0 {
		r.breaks("kafka.brokers", "is required", "write [localhost:9092]")
	}
	for i, broker := range k.Brokers {
		path := index("kafka.brokers", i)
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || !isPort(port, 1) {
			r.breaks(path, "must be host:port, is "+r.written(path, broker), "write localhost:9092")
		}
	}
	r.required("kafka.group", k.Group, "the consumer groups are named after it: feedsink-immediate, feedsink-batch")
	r.oneOf("kafka.startAt", k.StartAt, []string{"earliest", "latest"})
	if k.SessionTimeout < minSession || k.SessionTimeout > maxSession {
		r.breaks("kafka.sessionTimeout", "must be between 6s and 30m, is "+r.written("kafka.sessionTimeout", k.SessionTimeout), "write 30s")
	}
	r.tls(&k.TLS)
	r.sasl(&k.SASL)
}

func (r *rules) oneOf(path, value string, words []string) {
	if slices.Contains(words, value) {
		return
	}
	hint := ""
	if i := slices.IndexFunc(words, func(word string) bool { return edits(plainKey(value), plainKey(word)) <= 2 }); i >= 0 {
		hint = "did you mean " + words[i] + "?"
	}
	r.breaks(path, "must be one of "+strings.Join(words, ", ")+", is "+r.written(path, value), hint)
}

// tls checks that the files hold what their keys say, so that a wrong one is
// found at start and not at the first handshake.
func (r *rules) tls(t *TLS) {
	const path = "kafka.tls"
	if !t.Enabled && !r.unread[path+".enabled"] && t.CAFile+t.CertFile+t.KeyFile != "" {
		r.breaks(path, "has files but is not enabled: brokers would be reached without encryption", "write enabled: true")
		return
	}
	r.certificates(path, Certificates{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile})
}

func (r *rules) certificates(path string, t Certificates) {
	if t.CAFile != "" {
		if pem, ok := r.file(path+".caFile", t.CAFile); ok && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			r.breaks(path+".caFile", "holds no certificate in PEM form, is "+quote(t.CAFile), "")
		}
	}
	r.keyPair(path, t.CertFile, t.KeyFile)
}

// keyPair checks that a certificate and its key, if there are any, belong
// together.
func (r *rules) keyPair(path, certFile, keyFile string) {
	if (certFile == "") != (keyFile == "") {
		missing, given := "certFile", "keyFile"
		if keyFile == "" {
			missing, given = given, missing
		}
		r.breaks(path+"."+missing, "is required with "+given, "a certificate needs both files")
		return
	}
	if certFile == "" {
		return
	}
	cert, certRead := r.file(path+".certFile", certFile)
	key, keyRead := r.file(path+".keyFile", keyFile)
	if !certRead || !keyRead {
		return
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		r.breaks(path+".certFile", "is no certificate that belongs to keyFile: "+err.Error(), "")
	}
}

// file reads a file that the configuration names.
func (r *rules) file(path, name string) (data []byte, ok bool) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", name)
	}
	if err == nil {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		r.badFile(path, name, err)
	}
	return data, err == nil
}

func (r *rules) sasl(s *SASL) {
	const path = "kafka.sasl"
	if s.Mechanism == "" {
		if s.Username+s.PasswordFile != "" {
			r.breaks(path+".mechanism", "is required with a username or passwordFile", "one of "+strings.Join(mechanisms, ", "))
		}
		return
	}
	switch s.Mechanism {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		r.required(path+".username", s.Username, s.Mechanism+" needs username and passwordFile")
		r.required(path+".passwordFile", s.PasswordFile, s.Mechanism+" needs username and passwordFile")
	case "OAUTHBEARER", "AWS_MSK_IAM":
		r.breaks(path+".mechanism", s.Mechanism+" is not supported by this version", "one of "+strings.Join(mechanisms, ", "))
	default:
		r.oneOf(path+".mechanism", s.Mechanism, mechanisms)
	}
	if s.PasswordFile != "" {
		r.secretFile(path+".passwordFile", s.PasswordFile)
	}
}
