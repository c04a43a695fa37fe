package config

import (
	"fmt"
	"net"
	"regexp"
)

// headerName is RFC 9110's token, which names of HTTP headers are.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// hostName is a name as DNS has it.
var hostName = regexp.MustCompile(`^([0-9A-Za-z_]([0-9A-Za-z_-]*[0-9A-Za-z_])?\.)*[0-9A-Za-z_]([0-9A-Za-z_-]*[0-9A-Za-z_])?\.?$`)

func (r *rules) admin(a *Admin) {
	if _, port, err := net.SplitHostPort(a.Listen); err != nil || !isPort(port, 0) {
		r.breaks("admin.listen", "must be host:port, is "+r.written("admin.listen", a.Listen), "write :8080 for all addresses")
	}
	for i, host := range a.Hosts {
		if path := fmt.Sprintf("admin.hosts[%d]", i); !hostName.MatchString(host) {
			r.breaks(path, "must be the name of a host, is "+r.written(path, host), "write feedsink.example.com, without a scheme or port")
		}
	}
	r.certificates("admin.tls", Certificates{CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile})
	if a.TokenFile != "" {
		r.secretFile("admin.tokenFile", a.TokenFile)
	}
	if a.ProtectReads && a.TokenFile == "" && !r.unread["admin.tokenFile"] {
		r.breaks("admin.protectReads", "needs admin.tokenFile: there is no token to ask for", "write tokenFile: /run/secrets/admin-token")
	}
	if !headerName.MatchString(a.Webhook.Header) {
		r.breaks("admin.webhook.header", "must be the name of an HTTP header, is "+r.written("admin.webhook.header", a.Webhook.Header), "")
	}
	if _, port, err := net.SplitHostPort(a.Webhook.Members); a.Webhook.Members != "" && (err != nil || !isPort(port, 1)) {
		r.breaks("admin.webhook.members", "must be host:port, is "+r.written("admin.webhook.members", a.Webhook.Members),
			"a name that resolves to all members, such as that of a headless Service")
	}
	if a.Webhook.SecretFile != "" {
		r.secretFile("admin.webhook.secretFile", a.Webhook.SecretFile)
	}
}
