package service

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	reasonLength  = 500
	maxRetryAfter = 15 * time.Minute // longer waits are asked for again
)

// refusal classifies an answer that is neither the service's 2xx nor a 401 that a
// new token may cure. body is its beginning; zone is the calendar that the imports of the
// day follow and matters to operations 8 and 10 only.
func refusal(op Op, status int, header http.Header, body []byte, zone *time.Location, secrets ...string) *Error {
	e := &Error{op: op, status: status, reason: printable(redact(string(body), secrets...))}
	now := answeredAt(header, time.Now())
	after := retryAfter(header, now)
	e.after = min(after, maxRetryAfter)
	strange := foreign(op, status, header, body)
	e.kind = kindOf(op, status, strange)
	if op.importsFile() && !strange && noSlot(status, e.reason, now, after, zone) {
		e.kind = NoSlot
	}
	// What was refused was not applied; a 5xx promises nothing, nor does an answer
	// in place of the service's yes.
	e.unknown = (status < 300 || status >= 500) && e.kind != NoSlot && !op.reads()
	e.text = advice(op, status)
	if strange {
		e.text = notTheServices(op, isPage(header, body))
	}
	return e
}

// advice says what a person has to do about an answer that no waiting mends.
func advice(op Op, status int) string {
	switch {
	case status == http.StatusSwitchingProtocols:
		return "another protocol was offered, which was not asked for; check service.baseURL and any gateway or proxy in between"
	case status >= 300 && status < 400:
		return "redirects are not followed; configure the address the service really has"
	case op == OpToken && status == http.StatusUnauthorized:
		return "the API key is wrong or revoked; it is read again before every try"
	case status == http.StatusUnauthorized:
		return "a fresh token was refused too; check that the token and the service belong together"
	case status == http.StatusForbidden:
		return "the API key lacks the access right for this operation"
	}
	return ""
}

// kindOf maps a status. A redirect, an informational answer and one that is not
// the service's are transient: a misconfigured address must never turn events
// into dead letters.
func kindOf(op Op, status int, foreign bool) Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return Throttled
	case status < 400, status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return Transient
	case status == http.StatusUnauthorized, status == http.StatusForbidden, op == OpToken:
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
	if status >= 400 && status < 500 && after > 0 && !now.Add(after).Before(dayEnd(now, zone)) {
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

// dayEnd is the first moment of the next calendar day in zone; nil is UTC.
func dayEnd(now time.Time, zone *time.Location) time.Time {
	if zone == nil {
		zone = time.UTC
	}
	year, month, day := now.In(zone).Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, zone)
}

// answeredAt is when the service says that it answered, or else now: its days and
// dates are by its own clock, and ours may be wrong.
func answeredAt(header http.Header, now time.Time) time.Time {
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		return sent
	}
	return now
}

// retryAfter reads both forms of the header.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(until.Sub(now), 0)
}

// redact takes secrets out of a text that the service wrote.
func redact(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	return text
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
