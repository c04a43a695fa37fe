package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/feedsink/feedsink/batcher/slots"
)

// Kind is what an error means for the call that met it.
type Kind uint8

// The kinds of error.
const (
	Transient    Kind = iota + 1 // network, timeout, 3xx, 408, 425, 5xx, an answer that cannot be read or is not the service's
	Throttled                    // 429
	Unauthorized                 // no token to be had, 401 with a fresh one, 403
	NotFound                     // 404, unless it says that there is no such entity or table
	Conflict                     // 409
	Rejected                     // any other 4xx, and keys that no address can hold
	NoSlot                       // operations 8 and 10: no import left today
	Canceled                     // the caller's context ended; says nothing about the service
)

var kindNames = [...]string{
	Transient:    "transient",
	Throttled:    "throttled",
	Unauthorized: "unauthorized",
	NotFound:     "not found",
	Conflict:     "conflict",
	Rejected:     "rejected",
	NoSlot:       "no slot left",
	Canceled:     "canceled",
}

// String is the kind in words.
func (k Kind) String() string {
	return kindNames[k]
}

// Error is a call that did not succeed. Every error of a Client's method is
// one, found with errors.As, except those of a file or writer that the caller
// handed in: these are returned as they are, with the operation in front.
type Error struct {
	op      operation
	kind    Kind
	status  int
	after   time.Duration
	at      time.Time // of the answer, by the service's clock
	unknown bool
	timeout bool
	shared  bool   // another call tells of it, too
	noPlace bool   // the service does not know the entity, the table or the ETL
	target  string // table, ETL or execution; never a key
	text    string // what happened, when no status came: printable, without secrets
	reason  string // beginning of the answer's body: printable, without secrets
	err     error  // what errors.Is may look for
}

// Kind is what the error means.
func (e *Error) Kind() Kind { return e.kind }

// Status is the HTTP status of the answer, 0 if none came.
func (e *Error) Status() int { return e.status }

// RetryAfter is what the service asked to wait, at most 15 minutes; 0 if it
// did not ask.
func (e *Error) RetryAfter() time.Duration { return e.after }

// Transient reports whether the same call may succeed later: nothing was said
// against its content. It holds for a Canceled call too, whose fate is open,
// and for NoSlot, where later means tomorrow.
func (e *Error) Transient() bool {
	switch e.kind {
	case NotFound, Conflict, Rejected:
		return false
	}
	return true
}

// NoSlot reports whether the table has no import left today (operations 8
// and 10).
func (e *Error) NoSlot() bool { return e.kind == NoSlot }

// Answered is when the service says that it answered; zero if it does not say. Which day's
// imports are used up goes by its clock.
func (e *Error) Answered() time.Time { return e.at }

// TooLarge reports whether the file is larger than the service takes, or a gateway before it
// (operations 8 and 10): 413, or a refusal of the service that says so.
func (e *Error) TooLarge() bool {
	return e.op.uploads() &&
		(e.status == http.StatusRequestEntityTooLarge || e.kind == Rejected && tooLarge(e.reason))
}

// Overload reports whether the service had too much to do: 408, 429, 503, 504,
// or no answer in time.
func (e *Error) Overload() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return e.timeout
}

// Unknown reports whether the call may have been applied all the same: the
// request went out, and the answer was lost or was a 5xx. It is false where
// that is excluded: nothing was sent, an upload was cut before its last byte,
// the operation only reads, or the service refused.
func (e *Error) Unknown() bool { return e.unknown }

// NoToken reports whether it was the token that could not be had: the operation was not
// called.
func (e *Error) NoToken() bool { return e.op == opToken }

// Shared reports whether another call, for which this one waited, asked for the token and
// tells of the failure, too.
func (e *Error) Shared() bool { return e.shared }

// NoPlace reports whether the service said in a 404 that it does not know the entity or the
// table, or of an execution the ETL. That says nothing about the profile, the record or the
// execution: the error is Transient.
func (e *Error) NoPlace() bool { return e.noPlace }

// Reason is the beginning of the service's answer, at most 500 characters,
// printable and without secrets; "" if there was none. Where it MayQuote
// the customers' values, it belongs into a dead letter, which holds them anyway, or
// before a person who asks, and not into a log.
func (e *Error) Reason() string { return e.reason }

// MayQuote reports whether the service knows of the operation what customers wrote into
// its tables, from the request or the file that it is about. Its Reason may quote that
// and stays out of the text of the error: of all operations but 9, 13 and 14.
func (e *Error) MayQuote() bool {
	return e.op != opCreateETL && e.op != opCreateWebhook && e.op != opToken
}

// Cause is what of Reason may be said anywhere, "" if that is nothing.
func (e *Error) Cause() string { return plainly(e.reason) }

// Error reads as a path: operation, what it was about, what happened. It holds
// no secret, no key and no value: see MayQuote.
func (e *Error) Error() string {
	s := e.op.String()
	if e.target != "" {
		s += " " + e.target
	}
	if e.status == 0 {
		return s + ": " + e.text
	}
	s = fmt.Sprintf("%s: %d", s, e.status)
	if name := http.StatusText(e.status); name != "" {
		s += " " + name
	}
	if e.text != "" {
		s += ": " + e.text
	}
	if e.reason != "" && !e.MayQuote() {
		s += ": " + e.reason
	}
	return s
}

// Unwrap leads to the cause, if there is one below HTTP.
func (e *Error) Unwrap() error { return e.err }

// canceled is the error of a call whose caller's context ended.
func canceled(ctx context.Context, op operation, target string) *Error {
	return &Error{op: op, kind: Canceled, target: target, text: ctx.Err().Error(), err: ctx.Err()}
}

// unreadable is a 2xx of a reading operation that does not say what it should.
// It is transient: a page from something in between goes away again.
func unreadable(op operation, target string, got answer, err error) *Error {
	return &Error{op: op, kind: Transient, target: target, status: got.status, text: err.Error(), err: err}
}

const (
	reasonLength  = 500
	maxRetryAfter = 15 * time.Minute // longer waits are asked for again
)

// refusal classifies an answer that is neither the service's 2xx nor a 401 that a
// new token may cure. body is its beginning; zone is the calendar that the imports of the
// day follow and matters to operations 8 and 10 only.
func refusal(op operation, status int, header http.Header, body []byte, zone *time.Location, secrets ...string) *Error {
	e := &Error{op: op, status: status, reason: printable(redact(string(body), secrets...))}
	e.at, _ = http.ParseTime(header.Get("Date"))
	// Its days and dates are by its own clock, and ours may be wrong.
	now := cmp.Or(e.at, time.Now())
	after := retryAfter(header, now)
	e.after = min(after, maxRetryAfter)
	strange := foreign(op, status, header, body)
	e.kind = kindOf(op, status, strange)
	if op.uploads() && !strange && noSlot(status, e.reason, now, after, zone) {
		e.kind = NoSlot
	}
	// What was refused was not applied; a 5xx promises nothing, nor does an answer
	// in place of the service's yes.
	e.unknown = (status < 300 || status >= 500 || status == clientClosed) && e.kind != NoSlot && !op.reads()
	e.text = advice(op, status)
	if strange {
		who := notTheServices(op, isPage(header, body))
		if e.TooLarge() {
			who = e.text + " (" + who + ")"
		}
		e.text = who
	}
	return e
}

// advice says what a person has to do about an answer that waiting does not change.
func advice(op operation, status int) string {
	switch {
	case status == http.StatusSwitchingProtocols:
		return "another protocol was offered, which was not asked for; check service.baseURL and any gateway or proxy in between"
	case status >= 300 && status < 400:
		return "redirects are not followed; configure the address the service really has"
	case op == opToken && status == http.StatusUnauthorized:
		return "the API key is wrong or revoked; it is read again before every try"
	case status == http.StatusUnauthorized:
		return "a fresh token was refused too; check that the token and the service belong together"
	case op == opTrigger && status == http.StatusNotFound:
		return "there is no such ETL; correct its id in the mapping's imports, or service.entity"
	case op == opTrigger && status == http.StatusRequestEntityTooLarge:
		return "the file is larger than the service takes, or a gateway or proxy before it; set imports.maxFile to what they take"
	case op == opOneShot && status == http.StatusRequestEntityTooLarge:
		return "the file is larger than the service takes, or a gateway or proxy before it; divide it"
	case status == http.StatusForbidden:
		return "the API key lacks the access right for this operation"
	}
	return ""
}

// clientClosed is what gateways say of a client that they take to be gone: the service may
// have applied the request.
const clientClosed = 499

// kindOf maps a status. A redirect, an informational answer and one that is not
// the service's are transient: a misconfigured address must never turn events
// into dead letters.
func kindOf(op operation, status int, foreign bool) Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return Throttled
	case status < 400, status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == clientClosed:
		return Transient
	case status == http.StatusUnauthorized, status == http.StatusForbidden, op == opToken:
		return Unauthorized
	case foreign:
		return Transient
	case status == http.StatusNotFound:
		return NotFound
	case status == http.StatusConflict:
		return Conflict
	}
	return Rejected
}

// The wording of a refused import is not shown, so it is told by meaning:
// something is used up (spent), and that is a day's worth or a slot (daily), or
// a quota of imports. A limit on anything shorter than a day, on things at the
// same time or on sizes is a different one (other).
var (
	spent = regexp.MustCompile(`limit|quota|maximum|exceed|exhaust|reached|too many|no more|used up|\bno\b.*\b(left|available|remain)`)
	daily = regexp.MustCompile(`\b(daily|today|(per|a|this|the) day|for the day|24 ?h(ours)?|slots?)\b`)
	quota = regexp.MustCompile(`\b(import|execution|etl)s? (quota|limit)|(quota|limit) of (import|execution|etl)|\bmax(imum)? (number of )?(import|execution|etl)s`)
	other = regexp.MustCompile(`\b(minute|second|hour|rate|concurrent\w*|parallel|simultaneous\w*|running|in progress|size|rows?|lines?|mi?b|bytes?)\b`)
)

// noSlot reports whether a refusal of an import means that the table has none
// left today. Taking a passing limit for the day's would idle the table until
// midnight, the other way round costs one more try; hence in doubt it is not.
func noSlot(status int, reason string, now time.Time, after time.Duration, zone *time.Location) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return false
	}
	// A longer wait is none for the next day.
	if status >= 400 && status < 500 && after > 0 && after <= 48*time.Hour && !now.Add(after).Before(dayEnd(now, zone)) {
		return true
	}
	if status < 400 {
		return false
	}
	text := strings.ToLower(strings.NewReplacer("_", " ", "-", " ").Replace(reason))
	if !spent.MatchString(text) || other.MatchString(text) {
		return false
	}
	return daily.MatchString(text) || quota.MatchString(text)
}

// dayEnd is the beginning of the next calendar day in zone; nil is UTC.
func dayEnd(now time.Time, zone *time.Location) time.Time {
	_, ends := slots.Day(now, cmp.Or(zone, time.UTC))
	return ends
}

// retryAfter reads both forms of the header, and others that are sent: fractions, a unit, a
// header twice, an instant as a number or in RFC 3339.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimPrefix(strings.TrimSpace(header.Get("Retry-After")), "+")
	if text == "" {
		return 0
	}
	if text[0] >= '0' && text[0] <= '9' {
		first, _, _ := strings.Cut(strings.ReplaceAll(text, ";", ","), ",")
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(first), "s"), 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
		case seconds > 1e9 && seconds < 1e11:
			return max(time.Unix(int64(seconds), 0).Sub(now), 0)
		case seconds > 1e12 && seconds < 1e14:
			return max(time.UnixMilli(int64(seconds)).Sub(now), 0)
		default:
			return time.Duration(min(math.Ceil(seconds), math.MaxUint32)) * time.Second
		}
	}
	until, err := http.ParseTime(text)
	for _, layout := range []string{time.RFC1123, time.RFC1123Z, time.RFC3339} {
		if err != nil {
			until, err = time.Parse(layout, text)
		}
	}
	if err != nil {
		return 0
	}
	return max(until.Sub(now), 0)
}

// redact takes secrets out of a text that the service wrote, which may have escaped them.
func redact(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		text = strings.ReplaceAll(text, secret, redacted)
		text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(secret)), redacted)
		if strings.ContainsAny(text, `\%&`) {
			text = escaped(secret).ReplaceAllString(text, redacted)
		}
	}
	return text
}

// escaped matches a secret of which JSON, a URL or HTML has escaped some bytes.
func escaped(secret string) *regexp.Regexp {
	var pattern strings.Builder
	for i := range len(secret) {
		c := secret[i]
		fmt.Fprintf(&pattern, `(?:\\?%s|(?i:\\u00%02x|%%%02[2]x|&#0*%[2]d;|&#x0*%[2]x;)`, regexp.QuoteMeta(string(rune(c))), c)
		if name := html.EscapeString(string(rune(c))); len(name) > 1 {
			pattern.WriteString("|" + name)
		}
		if c == ' ' {
			pattern.WriteString(`|\+`)
		}
		pattern.WriteString(")")
	}
	return regexp.MustCompile(pattern.String())
}

// unquoted leaves out what came instead of an answer, which net/http quotes.
func unquoted(text string) string {
	if before, _, found := strings.Cut(text, "malformed "); found {
		return before + "what came is not HTTP"
	}
	return text
}

// printable is the first 500 characters of text as one line: white space of any
// kind is one blank, what cannot be printed is left out.
func printable(text string) string {
	var b strings.Builder
	count, gap := 0, false
	for _, r := range text {
		if unicode.IsSpace(r) {
			gap = true
			continue
		}
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			continue
		}
		if gap && count > 0 {
			if count++; count >= reasonLength {
				break
			}
			b.WriteByte(' ')
		}
		gap = false
		b.WriteRune(r)
		if count++; count >= reasonLength {
			break
		}
	}
	return b.String()
}

// This file decides whether an answer is the service's. A gateway, a proxy or a
// login page may answer in its place, and so does whatever stands at a wrong
// address. Such an answer says nothing about the write: it confirms none, it
// rejects none, it does not mean that a row is absent. It is transient.

// misdirected are statuses that say that the request went to a wrong place. No
// body makes them a word about what was sent.
var misdirected = []int{
	http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusGone,
	http.StatusMisdirectedRequest, http.StatusUpgradeRequired,
}

// gatewayWords are how well-known gateways begin an answer without a page when
// no route leads to the service: Go and Traefik, ingress-nginx, Envoy, Kong, Apigee, Azure API
// Management, and a TLS port that was called without TLS. In lower case, without white space.
var gatewayWords = []string{
	"404pagenotfound",
	"defaultbackend-404",
	"nohealthyupstream",
	`{"message":"noroutematchedwiththosevalues"`,
	`{"fault":{"faultstring":"unabletoidentifyproxy`,
	`{"statuscode":404,"message":"resourcenotfound"}`,
	"clientsentanhttprequesttoanhttpsserver",
}

// amazonsWords are Amazon API Gateway's, where its header is there, too: a service may say the
// same of a record.
const amazonsWords = `{"message":"notfound"}`

// noRoute is how frameworks say in JSON that nothing of theirs has the path, which says nothing
// about a record: Spring, Nest and Fastify.
var noRoute = regexp.MustCompile(`"(No static resource |No handler found for |No endpoint [A-Z]+ /|Cannot [A-Z]+ /|Route [A-Z]+:/)`)

// foreign reports whether an answer is plainly not the service's. body may be its
// beginning.
func foreign(op operation, status int, header http.Header, body []byte) bool {
	if status >= 200 && status < 300 {
		return isPage(header, body) || !op.reads() && !isYes(op, status, body)
	}
	switch {
	case isPage(header, body), isGatewayText(header, body), status == http.StatusNotFound && isJSON(body) && noRoute.Match(body):
		return true
	case status < 400, status >= 500:
		return false // transient anyway
	case status == http.StatusNotFound && (op == opUpsertProfile || op == opUpsertRecord):
		return true // they create what is not there: only an address can be wrong
	case slices.Contains(misdirected, status):
		return true
	case passing(status), status == http.StatusUnauthorized, status == http.StatusForbidden:
		return false
	case slices.Contains(interfaceHas[op].refusals, status) && (status != http.StatusNotFound || len(trimmed(body)) == 0):
		return false
	}
	return !isJSON(body)
}

// isYes reports whether a 2xx may be the service's of an operation that changes something.
// Something in between may take a request without passing it on, and say so in its own
// way. Of operations 8 to 13 the interface leaves open what is said, and nothing is
// confirmed by it: the end of an execution has to be asked for.
func isYes(op operation, status int, body []byte) bool {
	text := trimmed(body)
	switch {
	case isJSON(text):
		return status != http.StatusMultiStatus || !saysErrors(text)
	case len(text) > 0 && text[0] == '<', isGatewayText(nil, text):
		return false
	case op >= opOneShot:
		return true
	case status > http.StatusCreated && status != http.StatusNoContent:
		return false
	}
	// OK, true, 12: what operation 5 says is open.
	return op == opUpdateRecord || CompressionOf(text) != Plain || !bytes.ContainsAny(bytes.TrimSpace(text), " \t\r\n")
}

// saysErrors reports whether the text is a JSON object with an error in it.
func saysErrors(text []byte) bool {
	v, _ := parse(text)
	object, _ := v.(map[string]any)
	says := func(name string) bool {
		return !slices.Contains([]string{"", "[]", "{}", "false", "0"}, describe(member(object, name)))
	}
	return says("error") || says("errors")
}

// passing are the 4xx that ask to try again.
func passing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests || status == clientClosed
}

// isPage reports whether an answer is HTML. Its content decides; the header
// counts where that does not tell. Nothing at all is no page.
func isPage(header http.Header, body []byte) bool {
	text := trimmed(body)
	switch {
	case len(text) == 0 || isJSON(text):
		return false
	case CompressionOf(text) != Plain: // an output file, or an answer that was compressed on its way
		return header.Get("Content-Encoding") != "" && saysHTML(header)
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

func isGatewayText(header http.Header, body []byte) bool {
	text := strings.ToLower(string(trimmed(body[:min(len(body), 200)])))
	text = strings.Join(strings.Fields(text), "") // JSON may be laid out over lines
	return text == amazonsWords && header.Get("Apigw-Requestid") != "" || slices.ContainsFunc(gatewayWords, func(words string) bool { return strings.HasPrefix(text, words) })
}

// isJSON reports whether body begins as JSON that is no bare number or word does.
func isJSON(body []byte) bool {
	text := trimmed(body)
	return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}

// trimmed is body without a byte order mark and white space before it.
func trimmed(body []byte) []byte {
	if len(body) > 0 && body[0] > ' ' && body[0] < 0x80 {
		return body
	}
	return bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
}

// notTheServices says what a person has to look at.
func notTheServices(op operation, page bool) string {
	what := "the answer is not the service's"
	if page {
		what += ", it is a web page"
	}
	switch op {
	case opToken:
		return what + "; check service.authURL and any gateway or proxy in between"
	case opTrigger:
		return what + "; check service.baseURL, service.entity, the ETL's id and any gateway or proxy in between"
	}
	return what + "; check service.baseURL, service.entity, the table's name and any gateway or proxy in between"
}
