package sandbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Type is an attribute type of the document.
type Type string

// The attribute types.
const (
	String    Type = "String"
	Integer   Type = "Integer"   // -2147483648 to 2147483647
	Number    Type = "Number"    // no exponent, no leading +
	Boolean   Type = "Boolean"   // true or false
	Date      Type = "Date"      // yyyy-MM-dd
	Timestamp Type = "Timestamp" // yyyy-MM-ddThh:mm:ss, with or without Z or an offset
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

// maxString is the length of a String in characters unless its field says
// otherwise.
const maxString = 255

var (
	wholeNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	decimalNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
)

// wrongType are the refusals of values that are not of a type. They name the rule and
// never the value, as all of these do: they end in answers, error files and logs.
var wrongType = map[Type]*refusal{
	String:    violation("NOT_STRING", "not a string"),
	Integer:   violation("NOT_INTEGER", "not a whole number from -2147483648 to 2147483647"),
	Number:    violation("NOT_NUMBER", "not a number with . as decimal separator"),
	Boolean:   violation("NOT_BOOLEAN", "not true or false"),
	Date:      violation("NOT_DATE", "not a date yyyy-MM-dd"),
	Timestamp: violation("NOT_TIMESTAMP", "not a timestamp yyyy-MM-ddThh:mm:ss"),
}

var (
	errNotList = violation("NOT_LIST", "not an array of values")
	errNotUTF8 = violation("NOT_TEXT", "not valid text")
)

// formats are the rules of the standard formats.
var formats = map[Format]struct {
	keeps   func(string) bool
	refusal *refusal
}{
	Email:    {isEmail, violation("NOT_EMAIL", "not a valid e-mail address")},
	Phone:    {isPhone, violation("NOT_PHONE", "not a phone number with its country prefix")},
	Language: {listed(languages), violation("NOT_LANGUAGE", "not an ISO 639-1 language")},
	Country:  {listed(countries), violation("NOT_COUNTRY", "not an ISO 3166-1 alpha-2 country")},
	Sex:      {func(s string) bool { return s == "M" || s == "F" }, violation("NOT_SEX", "not M or F")},
	Title:    {func(s string) bool { return s == "Mr" || s == "Mrs" || s == "Ms" }, violation("NOT_TITLE", "not Mr, Mrs or Ms")},
	UTM:      {isCoordinates, violation("NOT_COORDINATES", "not coordinates latitude|longitude")},
}

// technical are the recency attributes, which every profile table has and only
// an import of mode CREATE_ONLY may supply.
var technical = map[string]rule{
	"lastMailOpeningMoment":   {Field: Field{Type: Timestamp}},
	"lastMailClickMoment":     {Field: Field{Type: Timestamp}},
	"lastMailTargetingMoment": {Field: Field{Type: Timestamp}},
	"mobileTargetingRecency":  {Field: Field{Type: Timestamp}},
	"mobileDeliveryRecency":   {Field: Field{Type: Timestamp}},
	"goalReachedRecency":      {Field: Field{Type: Timestamp}},
	"participationRecency":    {Field: Field{Type: Timestamp}},
	"blacklistMoment":         {Field: Field{Type: Timestamp}},
	"lastDevice":              {},
	"lastUserAgent":           {},
	"lastMailActivityStatus": {options: []string{
		"SENT", "OPENED", "CLICKED", "ERROR", "FILTERED_NO_EMAIL_ADDRESS", "FILTERED_INVALID_EMAIL_ADDRESS",
		"FILTERED_DUPLICATE_EMAIL_ADDRESS", "FILTERED_EMAIL_SCORE_TOO_LOW", "FILTERED_BLACKLISTED_BY_RECIPIENT",
		"FILTERED_LONG_QUARANTINE", "FILTERED_TEMPORARY_QUARANTINE", "FILTERED_LOW_EMAIL_ACTIVITY",
		"FILTERED_CATCH_ALL_DOMAIN", "FILTERED_COMMERCIAL_PRESSURE", "FILTERED_OTHER", "BOUNCED_HARD_BOUNCE",
		"BOUNCED_SOFT_BOUNCE", "BOUNCED_AUTO_REPLY",
	}},
}

// rule is what the value of a field has to look like.
type rule struct {
	Field
	section string   // where it stands in a profile body: "" for attributes, else the object's name
	options []string // of an exclusive segmentation its segments, of lastMailActivityStatus its values
	free    bool     // an unlisted field of an open table: anything goes
}

// fromJSON checks a value as it stands in a profile body and returns what is
// stored: nil, string, bool, json.Number or a list of these.
func (r rule) fromJSON(v any) (any, error) {
	if v == nil || r.free {
		return v, nil
	}
	list, isList := v.([]any)
	switch {
	case isList && !r.Multi:
		return nil, violation("NOT_SCALAR", "one value is expected, not an array")
	case isList:
		return checkAll(list, r.scalar)
	case r.Multi:
		return nil, errNotList
	}
	return r.scalar(v)
}

// checkAll checks the values of a list.
func checkAll[T any](list []T, check func(T) (any, error)) (any, error) {
	checked := make([]any, len(list))
	for i, v := range list {
		var err error
		if checked[i], err = check(v); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// scalar checks one JSON value, which must have the JSON type of its field.
func (r rule) scalar(v any) (any, error) {
	numeric := r.Type == Integer || r.Type == Number
	switch v := v.(type) {
	case string:
		if !numeric && r.Type != Boolean {
			return r.fromText(v)
		}
	case json.Number:
		if numeric {
			return r.fromText(v.String())
		}
	case bool:
		if r.Type == Boolean {
			return v, nil
		}
	}
	if why, is := wrongType[r.Type]; is {
		return nil, why
	}
	return nil, wrongType[String]
}

// fromProperty checks a value of a custom table's record. It is a number or a
// string on the wire, whatever the type of its field; null, which the document
// does not show, clears the field.
func (r rule) fromProperty(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return r.fromText(v)
	case json.Number:
		if r.free {
			return v, nil
		}
		return r.scalar(v)
	}
	return nil, violation("NOT_PROPERTY", "not a number or a string")
}

// fromCell checks a cell of a file. An empty cell is no value. How a list
// stands in a cell is not shown: a JSON array and values separated by | are
// both understood.
func (r rule) fromCell(s string) (any, error) {
	switch {
	case s == "":
		return nil, nil
	case !r.Multi || r.free:
		return r.fromText(s)
	case !strings.HasPrefix(s, "["):
		return checkAll(strings.Split(s, "|"), r.fromText)
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var list []any
	if err := d.Decode(&list); err != nil {
		return nil, errNotList
	}
	return checkAll(list, func(v any) (any, error) { return r.fromText(textOf(v)) })
}

// fromText checks a value written as text and gives it its type.
func (r rule) fromText(s string) (any, error) {
	if !utf8.ValidString(s) {
		return nil, errNotUTF8
	}
	if r.free {
		return s, nil
	}
	var value any = s
	var keeps bool
	switch r.Type {
	case Integer:
		_, err := strconv.ParseInt(s, 10, 32)
		value, keeps = json.Number(s), err == nil && wholeNumber.MatchString(s)
	case Number:
		value, keeps = json.Number(s), decimalNumber.MatchString(s)
	case Boolean:
		value, keeps = s == "true", s == "true" || s == "false"
	case Date:
		_, err := time.Parse(time.DateOnly, s)
		keeps = err == nil
	case Timestamp:
		keeps = isTimestamp(s)
	default:
		return s, r.checkString(s)
	}
	if !keeps {
		return nil, wrongType[r.Type]
	}
	return value, nil
}

// checkString checks length, options and standard format. The empty string is of
// every format: it says that nothing is known.
func (r rule) checkString(s string) error {
	if limit := cmp.Or(r.MaxLength, maxString); utf8.RuneCountInString(s) > limit {
		return violation("TOO_LONG", fmt.Sprintf("longer than %d characters", limit))
	}
	if r.options != nil && !slices.Contains(r.options, s) {
		if r.section == "" {
			return violation("NOT_STATUS", "not a status of the last mail activity")
		}
		return violation("NOT_SEGMENT", "not a segment of this segmentation")
	}
	if f, has := formats[r.Format]; has && s != "" && !f.keeps(s) {
		return f.refusal
	}
	return nil
}

// isTimestamp wants whole seconds, with nothing, Z or an offset behind.
func isTimestamp(s string) bool {
	_, local := time.Parse("2006-01-02T15:04:05", s)
	_, zoned := time.Parse(time.RFC3339, s)
	// time.Parse reads a fraction that the layout does not name.
	return (local == nil || zoned == nil) && !strings.ContainsAny(s, ".,")
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

// textOf is a stored value as one text: a list as its JSON.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return string(marshal(v))
}

// listed makes the check of a two-letter code that stands in a list. The document
// says nothing of case, and neither is refused.
func listed(list string) func(string) bool {
	return func(s string) bool {
		return len(s) == 2 && !strings.Contains(s, " ") &&
			(strings.Contains(list, " "+strings.ToLower(s)+" ") || strings.Contains(list, " "+strings.ToUpper(s)+" "))
	}
}

// languages are the two-letter codes of ISO 639-1. They stand here, and not in
// a library, because the client has one: two lists of one standard find the
// slips of either.
const languages = " aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz" +
	" ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu" +
	" ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my" +
	" na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so" +
	" sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu "

// countries are the two-letter codes of ISO 3166-1 that are officially
// assigned. Reserved ones, such as UK, are not among them.
const countries = " AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ" +
	" CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR" +
	" GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP" +
	" KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT" +
	" MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW" +
	" SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ" +
	" UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW "
