package setup

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/feedsink/feedsink/connector/config"
)

// Place is what is known besides the records.
type Place struct {
	Kafka        config.Kafka // brokers and how to get in; group and the rest are not looked at
	Topic        string
	Registry     config.SchemaRegistry // its URL is "" where there is none
	ProfileTable string                // at most one of the two; neither: a guess
	CustomTable  string
}

// head is everything but the mappings.
func (w *writer) head() {
	w.line("# Written by feedsink init from %d records of the topic %s: %s.", w.Records(), w.place.Topic, shapes[w.shape])
	if w.Tombstones > 0 {
		w.line("# %d more have no value: they delete the row of their key.", w.Tombstones)
	}
	if w.Unreadable > 0 {
		w.line("# %d more could not be read and would be dead letters: plan says where they are.", w.Unreadable)
	}
	w.line("# Types, key and table are guesses: go through the lines with DECIDE. Then")
	w.line("#   feedsink plan -c FILE --show      what would go out")
	w.line("#   feedsink check -c FILE --online   whether it can work")
	w.line("#   feedsink run -c FILE")
	w.kafka()
	w.registry()
	w.line("service:                                   # DECIDE: addresses and entity are in your contract")
	w.line("  baseURL: ${FEEDSINK_BASE_URL:-http://localhost:8090}")
	w.line("  authURL: ${FEEDSINK_AUTH_URL:-http://localhost:8090}")
	w.line("  entity: ${FEEDSINK_ENTITY:-acme}")
	w.line("  apiKeyFile: ${FEEDSINK_SECRETS:-/run/secrets}/api-key   # a file, read again when it changes")
	w.line("dlq: {topic: feedsink.dlq}                 # must exist; without one, a bad record halts its partition")
	w.line("spool: {dir: \"${FEEDSINK_SPOOL:-/var/lib/feedsink}\", maxBytes: 20GiB}")
}

// kafka is the connection that the sample was read by.
func (w *writer) kafka() {
	k := w.place.Kafka
	brokers := make([]string, len(k.Brokers))
	for i, b := range k.Brokers {
		brokers[i] = text(b)
	}
	w.line("kafka:\n  brokers: [%s]", strings.Join(brokers, ", "))
	w.line("  group: feedsink   # the lanes' groups are feedsink-immediate and feedsink-batch; another file that runs wants another group")
	if k.TLS.Enabled {
		w.line("  tls: {enabled: true%s}", pairs("caFile", k.TLS.CAFile, "certFile", k.TLS.CertFile, "keyFile", k.TLS.KeyFile))
	}
	if k.SASL.Mechanism != "" {
		w.line("  sasl: {mechanism: %s%s}", k.SASL.Mechanism, pairs("username", k.SASL.Username, "passwordFile", k.SASL.PasswordFile))
	}
}

func (w *writer) registry() {
	r := w.place.Registry
	if r.URL.IsZero() {
		return
	}
	certificates := pairs("caFile", r.TLS.CAFile, "certFile", r.TLS.CertFile, "keyFile", r.TLS.KeyFile)
	if certificates != "" {
		certificates = ", tls: {" + strings.TrimPrefix(certificates, ", ") + "}"
	}
	w.line("schemaRegistry: {url: %s%s%s}", text(r.URL.Reveal()), pairs("username", r.Username, "passwordFile", r.PasswordFile), certificates)
}

// pairs are a map's further members, without those that say nothing.
func pairs(namesAndValues ...string) string {
	var b strings.Builder
	for i := 0; i < len(namesAndValues); i += 2 {
		if value := namesAndValues[i+1]; value != "" {
			fmt.Fprintf(&b, ", %s: %s", namesAndValues[i], text(value))
		}
	}
	return b.String()
}

// text is what somebody gave, as YAML takes it; nothing in it is a variable of
// the configuration.
func text(given string) string { return strconv.Quote(strings.ReplaceAll(given, "${", "$${")) }
