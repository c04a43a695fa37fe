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
		w.line("  sasl: {mechanism: %s%s%s%s}", k.SASL.Mechanism, pairs("username", k.SASL.Username, "passwordFile", k.SASL.PasswordFile), oauth(k.SASL.OAuth), intended(k.SASL.AllowPlaintext))
	}
}

func (w *writer) registry() {
	r := w.place.Registry
	if r.URL.IsZero() {
		return
	}
	w.line("schemaRegistry: {url: %s%s%s%s}", text(r.URL.Reveal()), pairs("username", r.Username, "passwordFile", r.PasswordFile), certificates(r.TLS), intended(r.AllowPlaintext))
}

// oauth is the further member of sasl that says where tokens come from, if any do.
func oauth(o config.OAuth) string {
	members := pairs("tokenURL", o.TokenURL, "clientId", o.ClientID, "clientSecretFile", o.ClientSecretFile, "scope", o.Scope, "tokenFile", o.TokenFile) +
		certificates(o.TLS)
	if len(o.Extensions) > 0 {
		named := make([]string, len(o.Extensions))
		for i, extension := range o.Extensions {
			named[i] = text(extension)
		}
		members += ", extensions: [" + strings.Join(named, ", ") + "]"
	}
	return within("oauth", members)
}

func certificates(c config.Certificates) string {
	return within("tls", pairs("caFile", c.CAFile, "certFile", c.CertFile, "keyFile", c.KeyFile))
}

// within is a further member that is a map of members; none if these are none.
func within(name, members string) string {
	if members == "" {
		return ""
	}
	return ", " + name + ": {" + strings.TrimPrefix(members, ", ") + "}"
}

// intended is the member that allows what would be refused.
func intended(plaintext bool) string {
	if plaintext {
		return ", allowPlaintext: true"
	}
	return ""
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
