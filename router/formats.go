package router

import (
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/feedsink/feedsink/schemas"
)

// maxText is the length of a string in characters unless the attribute's
// definition, which is not known here, says otherwise.
const maxText = 255

// The rules of the attribute value formats and the standard formats, as they
// are read in dead letters.
const (
	ruleLength    = "at most 255 characters"
	ruleText      = "must be text"
	ruleInteger   = "must be a whole number from -2147483648 to 2147483647"
	ruleNumber    = "must be a number: digits with an optional leading - and a decimal point"
	ruleBoolean   = "must be true or false"
	ruleDate      = "must be a date like 2006-01-02"
	ruleTimestamp = "must be a timestamp like 2006-01-02T15:04:05, optionally with Z or an offset"
	ruleEmail     = "must be an e-mail address"
	rulePhone     = "must be a phone number with its international prefix, of digits, spaces and + ( ) . - /"
	ruleLanguage  = "must be an ISO 639-1 language of two letters"
	ruleCountry   = "must be an ISO 3166-1 alpha-2 country of two letters"
	ruleSex       = "must be M or F"
	ruleTitle     = "must be Mr, Mrs or Ms"
	ruleUTM       = "must be a latitude and a longitude separated by |"
	ruleScalar    = "must be text, a number, true or false"
	ruleElements  = "must be a list of text, numbers, true or false"
)

// conversion makes a table's value of a source value that is neither absent
// nor null, or names the rule that the source value breaks.
type conversion func(v schemas.Value, scale int) (out schemas.Value, rule string)

// conversions by the word after `as:`.
var conversions = map[string]conversion{
	"string":    asString,
	"integer":   asInteger,
	"number":    asNumber,
	"boolean":   asBoolean,
	"date":      textual(ruleDate, date),
	"timestamp": textual(ruleTimestamp, timestamp),
	"list":      asList,
	"email":     textual(ruleEmail, email),
	"phone":     textual(rulePhone, phone),
	"language":  textual(ruleLanguage, languageCode),
	"country":   textual(ruleCountry, countryCode),
	"sex":       textual(ruleSex, func(s string) (string, bool) { return s, s == "M" || s == "F" }),
	"title":     textual(ruleTitle, func(s string) (string, bool) { return s, s == "Mr" || s == "Mrs" || s == "Ms" }),
	"utm":       textual(ruleUTM, utm),
}

// textual is a conversion of text, bounded like every string.
func textual(rule string, convert func(string) (string, bool)) conversion {
	return func(v schemas.Value, _ int) (schemas.Value, string) {
		if v.Kind() != schemas.String {
			return schemas.Value{}, rule
		}
		s, ok := convert(v.Text())
		switch {
		case !ok:
			return schemas.Value{}, rule
		case tooLong(s):
			return schemas.Value{}, ruleLength
		}
		return schemas.StringValue(s), ""
	}
}

// tooLong counts characters only where the bytes leave it open.
func tooLong(s string) bool {
	return len(s) > maxText && utf8.RuneCountInString(s) > maxText
}

// asString takes text as it is; numbers and booleans as they were written.
func asString(v schemas.Value, _ int) (schemas.Value, string) {
	switch v.Kind() {
	case schemas.String, schemas.Number, schemas.Bool:
		if tooLong(v.Text()) {
			return schemas.Value{}, ruleLength
		}
		return schemas.StringValue(v.Text()), ""
	}
	return schemas.Value{}, ruleText
}

// asInteger takes a number or text; 12.0 and 1.2e1 are whole numbers too.
func asInteger(v schemas.Value, _ int) (schemas.Value, string) {
	plain, ok := decimalOf(v, 0)
	if ok {
		whole, fraction, _ := strings.Cut(plain, ".")
		if n, err := strconv.ParseInt(whole, 10, 32); err == nil && strings.Trim(fraction, "0") == "" {
			return schemas.NumberValue(strconv.FormatInt(n, 10)), ""
		}
	}
	return schemas.Value{}, ruleInteger
}

// asNumber takes a number or text, times ten to the power of scale, exactly.
func asNumber(v schemas.Value, scale int) (schemas.Value, string) {
	plain, ok := decimalOf(v, scale)
	if !ok {
		return schemas.Value{}, ruleNumber
	}
	return schemas.NumberValue(plain), ""
}

func decimalOf(v schemas.Value, scale int) (string, bool) {
	if v.Kind() != schemas.Number && v.Kind() != schemas.String {
		return "", false
	}
	return decimal(v.Text(), scale)
}

// asBoolean takes a boolean, its word, and the numbers 0 and 1, with which
// databases that have no boolean write it.
func asBoolean(v schemas.Value, _ int) (schemas.Value, string) {
	switch v.Kind() {
	case schemas.Bool, schemas.String, schemas.Number:
		switch v.Text() {
		case "true", "1":
			return schemas.BoolValue(true), ""
		case "false", "0":
			return schemas.BoolValue(false), ""
		}
	}
	return schemas.Value{}, ruleBoolean
}

// asList takes a list as it is and makes a list of a single value.
func asList(v schemas.Value, _ int) (schemas.Value, string) {
	if v.Kind() != schemas.List {
		v = schemas.ListValue([]schemas.Field{{Value: v}})
	}
	return multiValue(v)
}

// date takes a date, and a timestamp's date as it is written there.
func date(s string) (string, bool) {
	if day, ok := timestamp(s); ok {
		return day[:len(time.DateOnly)], true
	}
	_, err := time.Parse(time.DateOnly, s)
	return s, err == nil
}

const (
	localTime  = "2006-01-02T15:04:05"
	zonedTime  = "2006-01-02T15:04:05Z07:00"
	fractionAt = len(localTime)
)

// timestamp takes a moment with or without a zone and cuts fractions of a
// second, for which the format has no place.
func timestamp(s string) (string, bool) {
	if len(s) > fractionAt && s[fractionAt] == '.' {
		digits := strings.TrimLeft(s[fractionAt+1:], "0123456789")
		if len(digits) == len(s)-fractionAt-1 {
			return "", false
		}
		s = s[:fractionAt] + digits
	}
	layout := zonedTime
	if len(s) == len(localTime) {
		layout = localTime
	}
	_, err := time.Parse(layout, s)
	return s, err == nil
}

// moment is a timestamp that says its zone.
func moment(s string) (string, bool) {
	s, ok := timestamp(s)
	return s, ok && len(s) > len(localTime)
}

func email(s string) (string, bool) {
	address, err := mail.ParseAddress(s)
	if err != nil || address.Name != "" || address.Address != s {
		return "", false
	}
	_, domain, _ := strings.Cut(s, "@")
	return s, !strings.ContainsAny(domain, "[@ ")
}

func phone(s string) (string, bool) {
	digits := 0
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case !strings.ContainsRune("+().-/ ", r):
			return "", false
		}
	}
	international := strings.HasPrefix(s, "+") || strings.HasPrefix(s, "00") || strings.HasPrefix(s, "(+")
	return s, international && digits >= 4
}

// languageCode takes any case and writes the standard's lower case.
func languageCode(s string) (string, bool) {
	s = strings.ToLower(s)
	base, err := language.ParseBase(s)
	return s, err == nil && len(s) == 2 && len(base.String()) == 2
}

// countryCode takes any case and writes the standard's upper case.
func countryCode(s string) (string, bool) {
	s = strings.ToUpper(s)
	region, err := language.ParseRegion(s)
	return s, err == nil && len(s) == 2 && region.IsCountry() && region.Canonicalize() == region
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

// The recency attributes are computed by the service; an import that creates
// profiles may supply them.
var (
	recencyMoments = []string{
		"lastMailOpeningMoment", "lastMailClickMoment", "lastMailTargetingMoment", "mobileTargetingRecency",
		"mobileDeliveryRecency", "goalReachedRecency", "participationRecency", "blacklistMoment",
	}
	recencyTexts = []string{"lastDevice", "lastUserAgent", "lastMailActivityStatus"}

	mailActivityStatuses = []string{
		"SENT", "OPENED", "CLICKED", "ERROR", "FILTERED_NO_EMAIL_ADDRESS", "FILTERED_INVALID_EMAIL_ADDRESS",
		"FILTERED_DUPLICATE_EMAIL_ADDRESS", "FILTERED_EMAIL_SCORE_TOO_LOW", "FILTERED_BLACKLISTED_BY_RECIPIENT",
		"FILTERED_LONG_QUARANTINE", "FILTERED_TEMPORARY_QUARANTINE", "FILTERED_LOW_EMAIL_ACTIVITY",
		"FILTERED_CATCH_ALL_DOMAIN", "FILTERED_COMMERCIAL_PRESSURE", "FILTERED_OTHER", "BOUNCED_HARD_BOUNCE",
		"BOUNCED_SOFT_BOUNCE", "BOUNCED_AUTO_REPLY",
	}
)

// technical checks a recency attribute; mine is false for any other attribute.
func technical(name string, v schemas.Value, op schemas.Op) (rule string, mine bool) {
	isMoment := slices.Contains(recencyMoments, name)
	if !isMoment && !slices.Contains(recencyTexts, name) {
		return "", false
	}
	switch {
	case op != schemas.Create:
		return "is computed by the service and may be given only with op create", true
	case v.Kind() == schemas.Null:
		return "", true
	case isMoment:
		_, rule = textual(ruleTimestamp, timestamp)(v, 0)
	case name == "lastMailActivityStatus" && !slices.Contains(mailActivityStatuses, v.Text()):
		rule = "must be one of the service's mail activity statuses, such as SENT"
	case v.Kind() != schemas.String:
		rule = ruleText
	}
	return rule, true
}
