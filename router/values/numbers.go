package values

import (
	"math"
	"strconv"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// asInteger takes a number or text, times ten to the power of scale; 12.0 and
// 1.2e1 are whole numbers too.
func asInteger(v schemas.Value, c *Converter) (schemas.Value, string) {
	if c.scale == 0 && v.Kind() == schemas.Number && isPlainInteger(v.Text()) {
		return v, ""
	}
	plain, ok := c.decimalOf(v)
	if !ok {
		return schemas.Value{}, c.numberRule(ruleInteger)
	}
	whole, fraction, _ := strings.Cut(plain, ".")
	n, err := strconv.ParseInt(whole, 10, 32)
	if err != nil || strings.Trim(fraction, "0") != "" {
		return schemas.Value{}, c.numberRule(ruleInteger)
	}
	if n == 0 {
		whole = "0" // never -0
	}
	return schemas.NumberValue(whole), ""
}

// asNumber takes a number or text, times ten to the power of scale, exactly.
func asNumber(v schemas.Value, c *Converter) (schemas.Value, string) {
	if c.scale == 0 && v.Kind() == schemas.Number && isPlainNumber(v.Text()) {
		return v, ""
	}
	plain, ok := c.decimalOf(v)
	if !ok {
		return schemas.Value{}, c.numberRule(ruleNumber)
	}
	return schemas.NumberValue(plain), ""
}

// decimalOf is decimalOf with the converter's scale and separator.
func (c *Converter) decimalOf(v schemas.Value) (string, bool) {
	if c.comma && v.Kind() == schemas.String {
		if strings.Contains(v.Text(), ".") {
			return "", false // it might separate thousands
		}
		v = schemas.StringValue(strings.Replace(v.Text(), ",", ".", 1))
	}
	return decimalOf(v, c.scale)
}

// numberRule is the rule of a number that the source may write with a comma.
func (c *Converter) numberRule(rule string) string {
	if c.comma {
		rule = strings.Replace(rule, "decimal point", "decimal comma", 1) + ruleThousands
	}
	return rule
}

func decimalOf(v schemas.Value, scale int) (string, bool) {
	if v.Kind() != schemas.Number && v.Kind() != schemas.String {
		return "", false
	}
	return decimal(v.Text(), scale)
}

// maxPower bounds exponents and scales, so that a few bytes cannot ask for a
// number of a million digits.
const maxPower = 400

// decimal writes number times ten to the power of scale without an exponent,
// exactly: the interface's numbers have none. ok is false where number is not
// written like a JSON number, or is longer than any string may be.
func decimal(number string, scale int) (plain string, ok bool) {
	sign, rest := "", number
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", rest[1:]
	}
	mantissa, power := rest, 0
	if at := exponentAt(rest); at >= 0 {
		p, err := strconv.Atoi(rest[at+1:])
		if err != nil {
			return "", false
		}
		mantissa, power = rest[:at], p
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !isDigits(whole) || point && !isDigits(fraction) || len(whole) > 1 && whole[0] == '0' {
		return "", false
	}
	if power < -maxPower || power > maxPower || len(number) > MaxText {
		return "", false
	}
	if power+scale == 0 {
		if mantissa == rest {
			return number, true // as it was written
		}
		return sign + mantissa, true
	}
	whole, fraction = shift(whole, fraction, power+scale)
	if fraction != "" {
		whole += "." + fraction
	}
	if len(whole) > MaxText {
		return "", false
	}
	if whole == "0" {
		sign = ""
	}
	return sign + whole, true
}

// shift moves the decimal point by n places to the right and drops zeros that
// say nothing.
func shift(whole, fraction string, n int) (string, string) {
	if n > 0 {
		fraction += strings.Repeat("0", max(0, n-len(fraction)))
		whole, fraction = whole+fraction[:n], fraction[n:]
	} else {
		whole = strings.Repeat("0", max(0, -n-len(whole))) + whole
		whole, fraction = whole[:len(whole)+n], whole[len(whole)+n:]+fraction
	}
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if whole == "" {
		whole = "0"
	}
	return whole, fraction
}

// exponentAt is where a number's exponent begins, -1 where it has none.
func exponentAt(number string) int {
	for i := range len(number) {
		if number[i]|0x20 == 'e' {
			return i
		}
	}
	return -1
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isPlainInteger recognises whole numbers of up to nine digits, which have one
// spelling and are within every range.
func isPlainInteger(s string) bool {
	digits := s
	if s != "" && s[0] == '-' {
		digits = s[1:]
	}
	if digits == "" || len(digits) > 9 || digits[0] == '0' && s != "0" {
		return false
	}
	return isDigits(digits)
}

// isPlainNumber reports whether a number's literal can be sent as it is.
func isPlainNumber(literal string) bool {
	return len(literal) <= MaxText && exponentAt(literal) < 0
}

// floatDigits is how many digits a float64 keeps of every decimal number.
const floatDigits = 15

// wholeFloats is up to where a float64 keeps every whole number.
const wholeFloats = 1 << 53

// RuleDigits is the rule of a number that computing would round, and of one that it has.
const RuleDigits = "must have at most 15 digits to be computed with"

// Computable reports whether a number's literal loses no digit in computations: a 64-bit
// integer, or what a float64 keeps.
func Computable(literal string) bool {
	_, err := strconv.Atoi(literal)
	return err == nil || FitsFloat(literal)
}

// FitsFloat reports whether a number's literal loses no digit as a float64.
func FitsFloat(literal string) bool {
	if n, err := strconv.Atoi(literal); err == nil && -wholeFloats <= n && n <= wholeFloats {
		return true
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
	digits := strings.TrimLeft(strings.Replace(strings.TrimPrefix(mantissa, "-"), ".", "", 1), "0")
	return len(strings.TrimRight(digits, "0")) <= floatDigits
}

// Exact reports whether rounding to the digits that a float64 keeps leaves a result's whole
// part alone.
func Exact(f float64) bool {
	return math.Abs(f) < 1e15 || FitsFloat(strconv.FormatFloat(f, 'f', -1, 64))
}

// Int is a whole number.
func Int(n int64) schemas.Value { return schemas.NumberValue(strconv.FormatInt(n, 10)) }

// Float rounds to the digits that a float64 keeps, so that 0.1 + 0.2 is 0.3.
func Float(f float64) (v schemas.Value, rule string) {
	switch {
	case !Exact(f):
		return schemas.Value{}, RuleDigits
	case f == math.Trunc(f) && math.Abs(f) <= wholeFloats:
		return Int(int64(f)), ""
	}
	plain, ok := decimal(strconv.FormatFloat(f, 'e', floatDigits-1, 64), 0)
	if !ok {
		return schemas.Value{}, ruleNumber
	}
	if strings.Contains(plain, ".") {
		plain = strings.TrimRight(strings.TrimRight(plain, "0"), ".")
	}
	return schemas.NumberValue(plain), ""
}
