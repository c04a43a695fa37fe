package router

import (
	"strconv"
	"strings"
)

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
	if power < -maxPower || power > maxPower || len(number) > maxText {
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
	if len(whole) > maxText {
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
