package router

import (
	"strings"
	"sync"

	"golang.org/x/text/language"
)

// The library knows every code that was ever seen in data; the standards name
// what is in force. What is reserved or withdrawn has to be taken away.
const (
	// Withdrawn from ISO 639-1. Java has written the first three for decades, so
	// a withdrawn language is written as the one that took its place.
	withdrawnLanguages = "iw he in id ji yi jw jv mo ro sh sr bh --"
	// Exceptionally or indeterminately reserved, transitionally reserved, user
	// assigned, or the union of countries that ISO 3166-1 does not list.
	reservedCountries = "AC AN CP CQ CS DG EA EU EZ FQ IC MI NT PC SU TA UK UN XA XB XK YU"
)

// codes is a set of codes of two letters, with how each is written; "" where
// there is no such code.
type codes [26 * 26]string

// at is the place of a code in any case; ok is false for what is not two
// letters.
func (*codes) at(code string) (i int, ok bool) {
	if len(code) != 2 {
		return 0, false
	}
	a, b := code[0]|0x20, code[1]|0x20
	if a < 'a' || a > 'z' || b < 'a' || b > 'z' {
		return 0, false
	}
	return int(a-'a')*26 + int(b-'a'), true
}

// find writes a code the standard's way.
func (c *codes) find(code string) (string, bool) {
	i, ok := c.at(code)
	if !ok || c[i] == "" {
		return "", false
	}
	return c[i], true
}

// collect asks known for every code of two small letters.
func collect(known func(code string) string) *codes {
	c := &codes{}
	for a := byte('a'); a <= 'z'; a++ {
		for b := byte('a'); b <= 'z'; b++ {
			code := string([]byte{a, b})
			i, _ := c.at(code)
			c[i] = known(code)
		}
	}
	return c
}

var languages = sync.OnceValue(func() *codes {
	replaced := strings.Fields(withdrawnLanguages)
	return collect(func(code string) string {
		for i := 0; i < len(replaced); i += 2 {
			if code == replaced[i] {
				return strings.TrimLeft(replaced[i+1], "-")
			}
		}
		if base, err := language.ParseBase(code); err != nil || len(base.String()) != 2 {
			return ""
		}
		return code
	})
})

var countries = sync.OnceValue(func() *codes {
	return collect(func(code string) string {
		code = strings.ToUpper(code)
		region, err := language.ParseRegion(code)
		if err != nil || !region.IsCountry() || region.Canonicalize() != region || strings.Contains(reservedCountries, code) {
			return ""
		}
		return code
	})
})

// languageCode takes any case and writes the standard's lower case.
func languageCode(s string) (string, bool) { return languages().find(s) }

// countryCode takes any case and writes the standard's upper case.
func countryCode(s string) (string, bool) { return countries().find(s) }
