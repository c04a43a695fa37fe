package service

import (
	"regexp"
	"strings"
)

// Why an execution FAILED is told in words that the interface does not show. That
// the file itself is the reason, so that it fails again however often it is sent, is
// told by meaning: a file of another format, rows of another number of columns,
// headers that repeat or are unknown. What may be the service's own trouble,
// or a file that did not arrive whole, is another reason (passing).
var (
	faults = regexp.MustCompile(strings.Join([]string{
		// duplicate headers
		`\bduplicat\w* (\S+ ){0,2}(header|column|attribute|field)`,
		`\b(header|column|attribute|field)s?:? (\S+ ){0,3}(duplicat|repeat|twice|more than once)`,
		// a row with the wrong number of columns
		`\b(number|count) of (\S+ )?(header|column|field|cell|value)s`,
		`\b(column|field|cell|header)s? (count|number)`,
		`\btoo (many|few) (column|field|cell|value)s`,
		`\b\d+ (column|field|cell|value)s? (instead|but|rather|where|expected|found)`,
		`\b(expected|expects|found|has|contains) \d+ (column|field|cell|value)s?`,
		// a header or attribute that is not known
		`\b(unknown|undefined|unrecogni[sz]ed|unexpected|unmapped|missing|invalid|no such) (\S+ )?(header|column|attribute|field)`,
		`\b(header|column|attribute|field)s?:? (\S+ ){0,2}((is|are|was|were|does|do) )?(unknown|undefined|unrecogni|unmapped|missing|not )`,
		`\bno (header|column|attribute|field)`,
		// another format
		`\b(invalid|wrong|unsupported|malformed|unreadable|incorrect) (file|csv|format|encoding|compression|archive|separator|delimiter)`,
		`\b(file|csv|archive|format|encoding|compression) (\S+ ){0,2}(is|are) (not (a )?(valid|supported)|no (valid )?(csv|zip|gzip)|invalid|unsupported|malformed)`,
		`\bnot an? (valid )?(csv|zip|gzip)\b`,
	}, "|"))
	maybePasses = regexp.MustCompile(`time(d)? ?out|temporar|unavailable|internal|again|later|connection|network|interrupt|locked|busy|storage|disk|memory|overload|` +
		`retriev|unexpected e(of|nd)|truncated|incomplete|corrupt`)
)

// FileAtFault reports whether the reason of FAILED says that the same file would fail
// again. In doubt it does not: one more try costs an import, none a person's time.
func (r Results) FileAtFault() bool {
	if r.Status != Failed {
		return false
	}
	text := strings.ToLower(strings.NewReplacer("_", " ", "-", " ", `"`, "", "'", "", "\\", "").Replace(r.Error))
	return faults.MatchString(text) && !maybePasses.MatchString(text)
}
