package router

import (
	"net/mail"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/feedsink/feedsink/schemas"
)

// maxText is the length of a string in characters unless the attribute's
// definition says otherwise, which is what `types` is for.
const maxText = 255

// The rules of the attribute value formats and the standard formats, as they
// are read in dead letters.
const (
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

// ruleLength is the rule of a string's length.
func ruleLength(limit int) string { return "at most " + strconv.Itoa(limit) + " characters" }

// converter is a conversion with what the configuration says about it.
type converter struct {
	convert conversion
	scale   int        // of numbers: the power of ten they are multiplied with
	limit   int        // of text, in characters; 0: maxText
	clock   *clock     // of dates and timestamps; nil: as the interface writes them
	each    *converter // of the elements of a list; nil: any scalar
}

// conversion makes a table's value of a source value that is neither absent
// nor null, or names the rule that the source value breaks.
type conversion func(v schemas.Value, c *converter) (out schemas.Value, rule string)

// conversions by the word after `as:`.
var conversions = map[string]conversion{
	"string":    asString,
	"integer":   asInteger,
	"number":    asNumber,
	"boolean":   asBoolean,
	"date":      asDate,
	"timestamp": asTimestamp,
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
	return func(v schemas.Value, c *converter) (schemas.Value, string) {
		if v.Kind() != schemas.String {
			return schemas.Value{}, rule
		}
		s, ok := convert(v.Text())
		if !ok {
			return schemas.Value{}, rule
		}
		return c.bounded(schemas.StringValue(s))
	}
}

// bounded is v unless its text is too long.
func (c *converter) bounded(v schemas.Value) (schemas.Value, string) {
	limit := maxText
	if c != nil && c.limit > 0 {
		limit = c.limit
	}
	// Characters are counted only where the bytes leave it open.
	if s := v.Text(); len(s) > limit && utf8.RuneCountInString(s) > limit {
		return schemas.Value{}, ruleLength(limit)
	}
	return v, ""
}

// asString takes text as it is; numbers and booleans as they were written.
func asString(v schemas.Value, c *converter) (schemas.Value, string) {
	switch v.Kind() {
	case schemas.String:
		return c.bounded(v)
	case schemas.Number, schemas.Bool:
		return c.bounded(schemas.StringValue(v.Text()))
	}
	return schemas.Value{}, ruleText
}

// asInteger takes a number or text, times ten to the power of scale; 12.0 and
// 1.2e1 are whole numbers too.
func asInteger(v schemas.Value, c *converter) (schemas.Value, string) {
	if c.scale == 0 && v.Kind() == schemas.Number && isPlainInteger(v.Text()) {
		return v, ""
	}
	plain, ok := decimalOf(v, c.scale)
	if !ok {
		return schemas.Value{}, ruleInteger
	}
	whole, fraction, _ := strings.Cut(plain, ".")
	n, err := strconv.ParseInt(whole, 10, 32)
	if err != nil || strings.Trim(fraction, "0") != "" {
		return schemas.Value{}, ruleInteger
	}
	if n == 0 {
		whole = "0" // never -0
	}
	return schemas.NumberValue(whole), ""
}

// asNumber takes a number or text, times ten to the power of scale, exactly.
func asNumber(v schemas.Value, c *converter) (schemas.Value, string) {
	if c.scale == 0 && v.Kind() == schemas.Number && isPlain(v.Text()) {
		return v, ""
	}
	plain, ok := decimalOf(v, c.scale)
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
func asBoolean(v schemas.Value, _ *converter) (schemas.Value, string) {
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
func asList(v schemas.Value, c *converter) (schemas.Value, string) {
	if v.Kind() != schemas.List {
		v = schemas.ListValue([]schemas.Field{{Value: v}})
	}
	return multiValue(v, c)
}

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
