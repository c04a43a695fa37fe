package config

import (
	"strings"

	"github.com/feedsink/feedsink/router"
)

func (r *rules) schemaRegistry(s *SchemaRegistry) {
	const path = "schemaRegistry"
	if s.URL.IsZero() {
		if s.Username+s.PasswordFile+s.TLS.CAFile+s.TLS.CertFile+s.TLS.KeyFile != "" && !r.unread[path+".url"] {
			r.breaks(path+".url", "is required with a login or certificates", "write https://host")
		}
		return
	}
	r.address(path+".url", s.URL.Reveal())
	switch {
	case (s.Username == "") != (s.PasswordFile == ""):
		missing, given := "passwordFile", "username"
		if s.Username == "" {
			missing, given = given, missing
		}
		r.breaks(path+"."+missing, "is required with "+given, "a login is both")
	case s.Username != "" && strings.Contains(s.URL.Reveal(), "@"):
		r.breaks(path+".url", "must not carry a user or password beside username and passwordFile", "keep one of the two logins")
	case s.Login() != nil:
		r.encrypted(path+".url", s.URL.Reveal(), path+".allowPlaintext", s.AllowPlaintext)
	}
	if s.PasswordFile != "" {
		r.secretFile(path+".passwordFile", s.PasswordFile)
	}
	r.certificates(path+".tls", s.TLS)
}

// schemaSource checks that the schemas that a mapping's records need can be had.
func (r *rules) schemaSource(path string, m router.Mapping) {
	if !r.cfg.SchemaRegistry.URL.IsZero() || r.unread["schemaRegistry.url"] {
		return
	}
	const missing, hint = " needs schemaRegistry.url", "write schemaRegistry: {url: https://host}"
	switch m.Format {
	case "avro", "json-schema", "protobuf":
		r.breaks(path+".format", m.Format+missing, hint)
	}
	if m.KafkaKey == "avro" {
		r.breaks(path+".kafkaKey", m.KafkaKey+missing, hint)
	}
}
