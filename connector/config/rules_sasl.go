package config

import "strings"

const enabledTLS = "tls: {enabled: true}"

// mechanisms are the SASL mechanisms that the Kafka side speaks.
var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"}

func (r *rules) sasl(k *Kafka) {
	const path = "kafka.sasl"
	s := &k.SASL
	oauth := s.OAuth.given()
	switch s.Mechanism {
	case "":
		if s.Username+s.PasswordFile != "" || oauth {
			r.breaks(path+".mechanism", "is required with credentials", "one of "+strings.Join(mechanisms, ", "))
		}
		return
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		needs := s.Mechanism + " needs " + r.say(path+".username", "username") + " and " + r.say(path+".passwordFile", "passwordFile")
		r.required(path+".username", s.Username, needs)
		r.required(path+".passwordFile", s.PasswordFile, needs)
		r.unused(path+".oauth", oauth, s.Mechanism)
	case "OAUTHBEARER":
		r.oauth(s)
		r.unused(path+".username", s.Username != "", s.Mechanism)
		r.unused(path+".passwordFile", s.PasswordFile != "", s.Mechanism)
	case "AWS_MSK_IAM":
		r.unused(path+".username", s.Username != "", s.Mechanism)
		r.unused(path+".passwordFile", s.PasswordFile != "", s.Mechanism)
		r.unused(path+".oauth", oauth, s.Mechanism)
		if !k.TLS.Enabled && !r.unread["kafka.tls.enabled"] {
			r.breaks("kafka.tls", "is required with AWS_MSK_IAM, which brokers take over TLS only", "add "+r.say("kafka.tls", enabledTLS))
		}
	default:
		r.oneOf(path+".mechanism", s.Mechanism, mechanisms)
	}
	if s.PasswordFile != "" {
		r.secretFile(path+".passwordFile", s.PasswordFile)
	}
	r.plaintext(k)
}

// plaintext refuses mechanisms that would show a secret to whoever listens. The
// SCRAMs never send their password.
func (r *rules) plaintext(k *Kafka) {
	const allow = "kafka.sasl.allowPlaintext"
	shows := k.SASL.Mechanism == "PLAIN" || k.SASL.Mechanism == "OAUTHBEARER"
	if !shows || k.TLS.Enabled || k.SASL.AllowPlaintext || local(k.Brokers) || r.unread[allow] || r.unread["kafka.tls.enabled"] {
		return
	}
	r.breaks("kafka.sasl.mechanism", k.SASL.Mechanism+" would send its secret without encryption",
		"add "+r.say("kafka.tls", enabledTLS)+", or "+r.say(allow, allow+": true")+" if nobody can listen in between")
}

func (o OAuth) given() bool {
	return o.TokenURL+o.ClientID+o.ClientSecretFile+o.Scope+o.TLS.CAFile+o.TLS.CertFile+o.TLS.KeyFile+o.TokenFile != "" || len(o.Extensions) > 0
}

func (r *rules) unused(path string, given bool, mechanism string) {
	if given {
		r.breaks(path, "has no part in "+mechanism, "remove it, or write another mechanism")
	}
}

func (r *rules) oauth(s *SASL) {
	const path = "kafka.sasl.oauth"
	o := &s.OAuth
	tokenFile, tokenURL := r.say(path+".tokenFile", "tokenFile"), r.say(path+".tokenURL", "tokenURL")
	for i, extension := range o.Extensions {
		if name, value, ok := strings.Cut(extension, "="); !ok || !isExtension(name) || name == "auth" || !isVisible(value) {
			r.breaks(index(path+".extensions", i), "must be name=value, with a name of letters that is not auth", "write logicalCluster=lkc-1")
		}
	}
	if o.TokenFile != "" {
		if o.TokenURL+o.ClientID+o.ClientSecretFile != "" {
			r.breaks(path+".tokenFile", "only one of "+tokenFile+" and "+tokenURL+" can be given", "with "+tokenFile+", something else renews the token")
		}
		r.secretFile(path+".tokenFile", o.TokenFile)
		return
	}
	needs := "OAUTHBEARER needs " + tokenURL + ", " + r.say(path+".clientId", "clientId") + " and " + r.say(path+".clientSecretFile", "clientSecretFile") + ", or " + tokenFile
	r.required(path+".clientId", o.ClientID, needs)
	if o.TokenURL == "" {
		r.required(path+".tokenURL", "", needs)
	} else {
		r.address(path+".tokenURL", o.TokenURL)
		r.encrypted(path+".tokenURL", o.TokenURL, "kafka.sasl.allowPlaintext", s.AllowPlaintext)
	}
	if o.ClientSecretFile == "" {
		r.required(path+".clientSecretFile", "", needs)
	} else {
		r.secretFile(path+".clientSecretFile", o.ClientSecretFile)
	}
	r.certificates(path+".tls", o.TLS)
}

// isExtension reports whether RFC 7628 takes text as a key.
func isExtension(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// isVisible reports whether text has no control character: they separate what
// is sent.
func isVisible(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}
