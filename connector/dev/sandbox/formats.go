package sandbox

import (
	"net/mail"
	"strconv"
	"strings"
)

// Format is a standard format that a String may carry.
type Format string

// The standard formats of the document.
const (
	Email    Format = "email"
	Phone    Format = "phone"
	Language Format = "language" // ISO 639-1
	Country  Format = "country"  // ISO 3166-1 alpha-2
	Sex      Format = "sex"      // M or F
	Title    Format = "title"    // Mr, Mrs or Ms
	UTM      Format = "utm"      // latitude|longitude, WGS 84
)

var (
	errNotEmail    = reason{"NOT_EMAIL", "not a valid e-mail address"}
	errNotPhone    = reason{"NOT_PHONE", "not a phone number with its country prefix"}
	errNotLanguage = reason{"NOT_LANGUAGE", "not an ISO 639-1 language"}
	errNotCountry  = reason{"NOT_COUNTRY", "not an ISO 3166-1 alpha-2 country"}
	errNotSex      = reason{"NOT_SEX", "not M or F"}
	errNotTitle    = reason{"NOT_TITLE", "not Mr, Mrs or Ms"}
	errNotUTM      = reason{"NOT_COORDINATES", "not coordinates latitude|longitude"}
)

// check reports whether s is written in the format. The empty string is: it
// says that nothing is known.
func (f Format) check(s string) error {
	if s == "" {
		return nil
	}
	ok, err := true, error(nil)
	switch f {
	case Email:
		ok, err = isEmail(s), errNotEmail
	case Phone:
		ok, err = isPhone(s), errNotPhone
	case Language:
		ok, err = listed(languages, s), errNotLanguage
	case Country:
		ok, err = listed(countries, s), errNotCountry
	case Sex:
		ok, err = s == "M" || s == "F", errNotSex
	case Title:
		ok, err = s == "Mr" || s == "Mrs" || s == "Ms", errNotTitle
	case UTM:
		ok, err = isCoordinates(s), errNotUTM
	}
	if ok {
		return nil
	}
	return err
}

func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}

// isPhone wants the characters of the document and, behind them, a number that
// starts with + or 00: that is how a country prefix is written.
func isPhone(s string) bool {
	var number strings.Builder
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9', c == '+':
			number.WriteRune(c)
		case !strings.ContainsRune("().-/ ", c):
			return false
		}
	}
	digits, plus := strings.CutPrefix(number.String(), "+")
	if !plus {
		digits, plus = strings.CutPrefix(digits, "00")
	}
	return plus && digits != "" && !strings.Contains(digits, "+")
}

func isCoordinates(s string) bool {
	x, y, two := strings.Cut(s, "|")
	return two && isDegrees(x, 90) && isDegrees(y, 180)
}

func isDegrees(s string, limit float64) bool {
	if !decimalNumber.MatchString(s) {
		return false
	}
	d, err := strconv.ParseFloat(s, 64)
	return err == nil && d >= -limit && d <= limit
}

// technical are the recency attributes, which every profile table has and only
// an import of mode CREATE_ONLY may supply.
var technical = technicalRules()

func technicalRules() map[string]rule {
	rules := map[string]rule{}
	for _, name := range []string{
		"lastMailOpeningMoment", "lastMailClickMoment", "lastMailTargetingMoment", "mobileTargetingRecency",
		"mobileDeliveryRecency", "goalReachedRecency", "participationRecency", "blacklistMoment",
	} {
		rules[name] = rule{Field: Field{Name: name, Type: Timestamp}}
	}
	for _, name := range []string{"lastDevice", "lastUserAgent"} {
		rules[name] = rule{Field: Field{Name: name}}
	}
	rules["lastMailActivityStatus"] = rule{
		Field: Field{Name: "lastMailActivityStatus"},
		options: []string{
			"SENT", "OPENED", "CLICKED", "ERROR", "FILTERED_NO_EMAIL_ADDRESS", "FILTERED_INVALID_EMAIL_ADDRESS",
			"FILTERED_DUPLICATE_EMAIL_ADDRESS", "FILTERED_EMAIL_SCORE_TOO_LOW", "FILTERED_BLACKLISTED_BY_RECIPIENT",
			"FILTERED_LONG_QUARANTINE", "FILTERED_TEMPORARY_QUARANTINE", "FILTERED_LOW_EMAIL_ACTIVITY",
			"FILTERED_CATCH_ALL_DOMAIN", "FILTERED_COMMERCIAL_PRESSURE", "FILTERED_OTHER", "BOUNCED_HARD_BOUNCE",
			"BOUNCED_SOFT_BOUNCE", "BOUNCED_AUTO_REPLY",
		},
	}
	return rules
}
