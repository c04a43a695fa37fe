package values

import (
	"net/mail"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

func email(s string) (string, bool) {
	if isPlainAddress(s) {
		return s, true
	}
	address, err := mail.ParseAddress(s)
	if err != nil || address.Name != "" || address.Address != s {
		return "", false
	}
	_, domain, _ := strings.Cut(s, "@")
	return s, !strings.ContainsAny(domain, "[@ ")
}

// isPlainAddress recognises what nearly every address is, names of letters,
// digits, - and _ between dots on both sides of one @, without the work that
// the full grammar takes.
func isPlainAddress(s string) bool {
	ats, before := 0, byte('.')
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		case c == '.' || c == '@':
			if before == '.' || before == '@' {
				return false
			}
			if c == '@' {
				ats++
			}
		default:
			return false
		}
		before = c
	}
	return ats == 1 && before != '.' && before != '@'
}

func phone(s string) (string, bool) {
	digits := 0
	for i := range len(s) {
		switch c := s[i]; c {
		case '+', '(', ')', '.', '-', '/', ' ':
		default:
			if c < '0' || c > '9' {
				return "", false
			}
			digits++
		}
	}
	international := strings.HasPrefix(s, "+") || strings.HasPrefix(s, "00") || strings.HasPrefix(s, "(+")
	return s, international && digits >= 4
}

// utm takes WGS 84 coordinates, X being the latitude.
func utm(s string) (string, bool) {
	x, y, ok := strings.Cut(s, "|")
	return s, ok && coordinate(x, 90) && coordinate(y, 180)
}

func coordinate(s string, limit float64) bool {
	plain, ok := decimal(s, 0)
	if !ok || plain != s {
		return false
	}
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && f >= -limit && f <= limit
}

// The library knows every code that was ever seen in data; the standards name
// what is in force. What is reserved or withdrawn has to be taken away.

// replacedLanguages are those withdrawn from ISO 639-1, which Java has written for
// decades, with what took their place.
var replacedLanguages = map[string]string{
	"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "sh": "sr", "bh": "",
}

// reservedCountries are exceptionally or indeterminately reserved, transitionally
// reserved, user assigned, or the union of countries that ISO 3166-1 does not list.
const reservedCountries = "AC AN CP CQ CS DG EA EU EZ FQ IC MI NT PC SU TA UK UN XA XB XK YU"

// codes is a set of codes of two letters, with how each is written; "" where
// there is no such code.
type codes [26 * 26]string

// newCodes asks for every code of two small letters how it is written.
func newCodes(written func(code string) string) *codes {
	c := &codes{}
	for i := range c {
		c[i] = written(string([]byte{'a' + byte(i/26), 'a' + byte(i%26)}))
	}
	return c
}

// find writes a code in any case the standard's way.
func (c *codes) find(code string) (string, bool) {
	if len(code) != 2 {
		return "", false
	}
	a, b := (code[0]|0x20)-'a', (code[1]|0x20)-'a'
	if a >= 26 || b >= 26 {
		return "", false
	}
	written := c[int(a)*26+int(b)]
	return written, written != ""
}

var languages = sync.OnceValue(func() *codes {
	return newCodes(func(code string) string {
		if replacement, withdrawn := replacedLanguages[code]; withdrawn {
			return replacement
		}
		if base, err := language.ParseBase(code); err != nil || len(base.String()) != 2 {
			return ""
		}
		return code
	})
})

var countries = sync.OnceValue(func() *codes {
	return newCodes(func(code string) string {
		code = strings.ToUpper(code)
		region, err := language.ParseRegion(code)
		if err != nil || !region.IsCountry() || region.Canonicalize() != region || strings.Contains(reservedCountries, code) {
			return ""
		}
		return code
	})
})

func languageCode(s string) (string, bool) { return languages().find(s) }

func countryCode(s string) (string, bool) { return countries().find(s) }
