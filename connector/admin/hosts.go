package admin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// A page of another site can have its own name resolve to this server's address
// (DNS rebinding). To the browser both are one site then: the page reads what the
// server shows and sends the headers that changes want. The name that it was loaded
// by comes along as the request's Host, and there it is refused.

// named answers 421 to requests by a name that is not this server's. It may be
// asked by any address, which no other site can have, as localhost, by the
// machine's own name, which is the pod's, by the name that it listens on, and by
// a.Hosts. The webhook is called by whatever name the service knows and is guarded
// by its own secret, which no page has; a request without a name is no browser's.
func (a Access) named(listen string, next http.Handler) http.Handler {
	known := map[string]bool{"": true, "localhost": true, hostOf(listen): true}
	if own, err := os.Hostname(); err == nil {
		known[hostOf(own)] = true
	}
	for _, host := range a.Hosts {
		known[hostOf(host)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r.Host)
		if _, err := netip.ParseAddr(host); err != nil && !known[host] && r.URL.Path != webhookPath {
			text(w, http.StatusMisdirectedRequest, fmt.Sprintf(
				"this server is not known as %.100q: use its address or localhost, or add the name to admin.hosts\n", host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf is a host, with or without a port, as it is compared.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
