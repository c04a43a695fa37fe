package service

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// This file decides whether an answer is the service's. A gateway, a proxy or a
// login page may answer in its place, and so does whatever stands at a wrong
// address. Such an answer says nothing about the write: it confirms none, it
// rejects none, it does not mean that a row is absent. It is transient.

// ownRefusals are, for each operation, the 4xx with which the service refuses
// what was sent, whatever their body is. The interface shows 404 and 409; it
// leaves open how a bad value is refused (400 or 422), what operations 2, 6, 11
// and 12 say of something that is not there, how large a file may be (413), and
// whether 2, 5 and imports know a conflict. Any other 4xx is the service's only with a body of its kind, which
// is JSON. 401, 403, 408, 425 and 429 are transient for every operation.
var ownRefusals = [...][]int{
	OpUpsertProfile: {400, 409, 422},
	OpPatchProfile:  {400, 404, 409, 422},
	OpDeleteProfile: {400, 404},
	OpUpsertRecord:  {400, 409, 422},
	OpUpdateRecord:  {400, 404, 409, 422},
	OpGetRecord:     {400, 404},
	OpDeleteRecord:  {400, 404},
	OpOneShot:       {400, 409, 413, 422},
	OpCreateETL:     {400, 409, 422},
	OpTrigger:       {400, 409, 413, 422},
	OpResults:       {400, 404},
	OpOutputFiles:   {400, 404},
	OpCreateWebhook: {400, 409, 422},
	OpToken:         {},
}

// misdirected are statuses that say that the request went to a wrong place. No
// body makes them a word about what was sent.
var misdirected = []int{
	http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusGone,
	http.StatusMisdirectedRequest, http.StatusUpgradeRequired,
}

// gatewayWords are how well-known gateways begin an answer without a page when
// no route leads to the service: Go and Traefik, ingress-nginx, Envoy, Kong, and a
// TLS port that was called without TLS. In lower case.
var gatewayWords = []string{
	"404 page not found",
	"default backend - 404",
	"no healthy upstream",
	`{"message":"no route matched with those values"`,
	"client sent an http request to an https server",
}

// foreign reports whether an answer that is no 2xx is plainly not the service's.
// body may be its beginning.
func foreign(op Op, status int, header http.Header, body []byte) bool {
	switch {
	case isPage(header, body), isGatewayText(body):
		return true
	case status < 400, status >= 500:
		return false // transient anyway
	case status == http.StatusNotFound && (op == OpUpsertProfile || op == OpUpsertRecord):
		return true // they create what is not there: only an address can be wrong
	case slices.Contains(misdirected, status):
		return true
	case passing(status), status == http.StatusUnauthorized, status == http.StatusForbidden:
		return false
	case slices.Contains(ownRefusals[op], status):
		return false
	}
	return !isJSON(body)
}

// passing are the 4xx that ask to try again.
func passing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

// isPage reports whether an answer is HTML. Its content decides; the header
// counts where that does not tell. Nothing at all is no page.
func isPage(header http.Header, body []byte) bool {
	text := trimmed(body)
	if len(text) == 0 || isJSON(text) || isCompressed(text) {
		return false
	}
	if saysHTML(header) || text[0] != '<' {
		return saysHTML(header)
	}
	text = bytes.ToLower(text[:min(len(text), 1024)])
	for _, around := range []struct{ open, end string }{{"<?xml", "?>"}, {"<!--", "-->"}} {
		for bytes.HasPrefix(text, []byte(around.open)) {
			_, after, _ := bytes.Cut(text, []byte(around.end))
			text = trimmed(after)
		}
	}
	for _, tag := range []string{"<!doctype html", "<html", "<head", "<body", "<title", "<center", "<h1"} {
		if bytes.HasPrefix(text, []byte(tag)) {
			return true
		}
	}
	return false
}

// saysHTML reports whether the header calls the body HTML.
func saysHTML(header http.Header) bool {
	kind, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

func isGatewayText(body []byte) bool {
	text := strings.ToLower(string(trimmed(body[:min(len(body), 200)])))
	return slices.ContainsFunc(gatewayWords, func(words string) bool { return strings.HasPrefix(text, words) })
}

// isJSON reports whether body begins as JSON that is no bare number or word does.
func isJSON(body []byte) bool {
	text := trimmed(body)
	return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}

func isCompressed(body []byte) bool {
	return (&beginning{first: body[:min(len(body), 4)]}).compression() != Plain
}

// trimmed is body without a byte order mark and white space before it.
func trimmed(body []byte) []byte {
	if len(body) > 0 && body[0] > ' ' && body[0] < 0x80 {
		return body
	}
	return bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
}

// notTheServices says what a person has to look at.
func notTheServices(op Op, page bool) string {
	what := "the answer is not the service's"
	if page {
		what += ", it is a web page"
	}
	switch op {
	case OpToken:
		return what + "; check service.authURL and any gateway or proxy in between"
	case OpTrigger:
		return what + "; check service.baseURL, service.entity, the ETL's id and any gateway or proxy in between"
	}
	return what + "; check service.baseURL, service.entity, the table's name and any gateway or proxy in between"
}
