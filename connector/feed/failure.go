package feed

import "regexp"

// causes are the errors by which an execution may end FAILED, as the interface
// lists them, with the words by which each is told: how the service writes them
// is not shown. The first that fits counts.
var causes = []struct {
	words *regexp.Regexp
	cause string
}{
	{regexp.MustCompile(`(?i)\b(duplicat\w*|twice|same)\b.*\b(headers?|columns?)\b|\b(headers?|columns?)\b.*\b(duplicat\w*|twice)\b`), "duplicate headers"},
	{regexp.MustCompile(`(?i)\b(number|count) of (columns|fields|cells|values)|\b(columns?|fields?|cells?)[ _-](count|number)|\b(too|as) (many|few) (columns|fields|cells|values)|\bexpected \d+ (columns|fields|cells|values)`), "a row has the wrong number of columns"},
	{regexp.MustCompile(`(?i)\bmissing files?\b|\bfiles? (is |are |was )?(missing|not (found|there))|\bno (such )?file\b`), "the file is missing"},
	{regexp.MustCompile(`(?i)\b(invalid|wrong|bad|unknown|unsupported|corrupt\w*|malformed)\b.*\b(formats?|files?|csv|g?zip|archive|encoding|charset)\b|\b(formats?|files?|csv|g?zip|archive|encoding)\b.*\b(invalid|wrong|corrupt\w*|malformed|unsupported)`), "the file's format is invalid"},
}

// causeOf is which of the interface's errors the service's words speak of, in
// words of our own: its words may quote what customers wrote, these cannot. "" if
// they speak of none.
func causeOf(words string) string {
	for _, c := range causes {
		if c.words.MatchString(words) {
			return c.cause
		}
	}
	return ""
}
