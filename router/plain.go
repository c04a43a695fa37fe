package router

// Nearly every moment and number comes in its plainest spelling. These recognise
// it in one look, without the work that the whole grammar takes; what they do
// not recognise may be good all the same.

// isPlainTimestamp recognises 2006-01-02T15:04:05, with Z behind it or nothing.
func isPlainTimestamp(s string) bool {
	if len(s) != len(localTime) && (len(s) != len(localTime)+1 || s[len(localTime)] != 'Z') {
		return false
	}
	return isPlainDate(s[:10]) && s[10] == 'T' && s[13] == ':' && s[16] == ':' &&
		pair(s, 11) < 24 && pair(s, 14) < 60 && pair(s, 17) < 60
}

// isPlainDate recognises 2006-01-02.
func isPlainDate(s string) bool {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' || pair(s, 0) > 99 || pair(s, 2) > 99 {
		return false
	}
	month, day := pair(s, 5), pair(s, 8)
	// The last days of months, which differ, are left to the calendar.
	return month >= 1 && month <= 12 && day >= 1 && day <= 28
}

// pair is the number that two digits of s say, more than 99 if they are none.
func pair(s string, at int) uint {
	tens, ones := uint(s[at]-'0'), uint(s[at+1]-'0')
	if tens > 9 || ones > 9 {
		return 100
	}
	return 10*tens + ones
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
