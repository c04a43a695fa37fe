package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// address checks an absolute http or https address. Only the registry's may
// carry a user and a password, and no message shows an address that does.
func (r *rules) address(path, value string) {
	if value == "" {
		r.breaks(path, "is required", "write https://host")
		return
	}
	is := ""
	if !strings.Contains(value, "@") {
		is = ", is " + r.written(path, value)
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || !isTarget(u, "http", "https"):
		r.breaks(path, "must be an absolute http or https address"+is, "write https://host")
	case u.RawQuery != "" || u.Fragment != "":
		r.breaks(path, "must not have a query or fragment"+is, "")
	case u.User != nil && path != "schemaRegistry.url":
		r.breaks(path, "must not carry a user or password", "secrets go into files")
	}
}

// proxy checks the address of a proxy, which may carry a user and a password.
func (r *rules) proxy(path string, value Address) {
	if value.IsZero() {
		return
	}
	u, err := url.Parse(value.Reveal())
	if err != nil || !isTarget(u, "http", "https", "socks5", "socks5h") || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		r.breaks(path, "must be the address of a proxy", "write http://host:3128; https, socks5 and socks5h can be had as well")
	}
}

// isTarget reports whether u names a host by one of the schemes.
func isTarget(u *url.URL, schemes ...string) bool {
	return slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && (u.Port() == "" || isPort(u.Port(), 1))
}

// encrypted refuses to send secrets over plain HTTP, unless the file allows it
// or they stay on this machine.
func (r *rules) encrypted(path, value, allow string, allowed bool) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" || allowed || r.unread[allow] || loopback(u.Hostname()) {
		return
	}
	r.breaks(path, "would send secrets over plain HTTP", "write https://, or "+r.say(allow, allow+": true")+" if nobody can listen in between")
}

// loopback reports whether a host is this machine by its very name.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// local reports whether all brokers are on this machine.
func local(brokers []string) bool {
	return !slices.ContainsFunc(brokers, func(broker string) bool {
		host, _, err := net.SplitHostPort(broker)
		return err == nil && !loopback(host)
	})
}
