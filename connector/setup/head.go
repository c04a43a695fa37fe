package setup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/words"
)

// Place is what is known besides the records.
type Place struct {
	Kafka        config.Kafka          // brokers and how to get in; group and the rest are not looked at
	Registry     config.SchemaRegistry // its URL is "" where there is none
	ProfileTable string                // at most one of the two, and only of one topic; neither: a guess
	CustomTable  string
}

// SchemaAddress is where editors get the configuration's schema from; it is its $id.
const SchemaAddress = "https://raw.githubusercontent.com/feedsink/feedsink/main/schemas/config.schema.json"

// head is everything but the mappings.
func (w *writer) head() {
	w.line("# yaml-language-server: $schema=" + SchemaAddress)
	for i, s := range w.samples {
		w.sample(s, i == 0)
	}
	w.line("# Types, keys, ops and tables are guesses: go through the lines with DECIDE. Then")
	w.line("#   feedsink plan -c FILE --show      what would go out")
	if slices.ContainsFunc(w.tables, (*table).files) {
		w.line("#   feedsink etl create -c FILE --mapping NAME   of each mapping with imports: the ETLs' lines to put there")
	}
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

// sample says what was looked at of a topic.
func (w *writer) sample(s *Sample, first bool) {
	begins := "And from"
	if first {
		begins = "Written by feedsink init from"
	}
	w.line("# %s %s of the topic %s: %s.", begins, words.Counted(s.Records(), "record"), s.Topic, shapes[s.shape()])
	switch {
	case s.inEvents():
		w.line("# They are the data of CloudEvents.")
	case s.events > 0:
		w.line("# DECIDE: %d are the data of CloudEvents and %d are none. A mapping reads a topic as one or the other.", s.events, s.others)
	}
	switch {
	case s.Tombstones == 1:
		w.line("# 1 more has no value: it deletes the row of its key.")
	case s.Tombstones > 1:
		w.line("# %d more have no value: they delete the row of their key.", s.Tombstones)
	}
	switch {
	case s.Unreadable == 1:
		w.line("# 1 more could not be read and would be a dead letter: plan says where it is.")
	case s.Unreadable > 1:
		w.line("# %d more could not be read and would be dead letters: plan says where they are.", s.Unreadable)
	}
}

// kafka is the connection that the sample was read by.
func (w *writer) kafka() {
	k := w.place.Kafka
	w.line("kafka:\n  brokers: [%s]", listed(k.Brokers, text))
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
		members += ", extensions: [" + listed(o.Extensions, text) + "]"
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

// text is a value that was given, as YAML takes it; nothing in it is a variable of
// the configuration.
func text(given string) string { return strconv.Quote(strings.ReplaceAll(given, "${", "$${")) }
