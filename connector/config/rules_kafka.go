package config

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/tlsfiles"
)

// The session timeouts that a broker takes unless it was told otherwise
// (group.min.session.timeout.ms, group.max.session.timeout.ms).
const (
	minSession = 6 * time.Second
	maxSession = 30 * time.Minute
)

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
	r.sasl(k)
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

func (r *rules) certificates(path string, c Certificates) {
	for _, wrong := range tlsfiles.Files(c).Check() {
		if wrong.File == "" {
			r.breaks(path+"."+wrong.Key, wrong.Err.Error(), "a certificate needs both files")
			continue
		}
		r.badFile(path+"."+wrong.Key, wrong.File, wrong.Err)
	}
}
