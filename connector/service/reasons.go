package service

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The service's reason may quote the cells that it objects to. What of it may be said
// anywhere reads as the service wrote it: a part of a sentence whose words all speak of
// files and their structure. What stands in quotes there, and numbers that do not count
// rows or columns, are left out whole; so is any other part.

// left stands for what is left out.
const left = "…"

// plainWords are those that tell what is wrong with a file. None of them is a
// likely name, place or answer of a customer.
var plainWords = wordSet(`a above after again all allowed already also an and any archive are as at attempt attempts attribute attributes available
	be because been before beginning below bad blank body both business but by byte bytes
	can cannot cell cells char character characters charset check checked checks chunk close closed code column columns comma
	complete compressed compression connection constraint contain containing contains content contents corrupt corrupted could
	count create created creation csv
	daily data database day decode decoded decoding decompress decompressed decompression defined definition delete deleted
	delimiter did different directory disk do does download duplicate duplicated duplicates during
	each either empty encoded encoding end ended ending ends enough entries entry error errors etl exceed exceeded exceeds
	execution exist existing exists expected expecting expects extension extra
	fail failed fails failure fatal fault few fewer field fields file filename files first for format formats found from full
	general global got greater gz gzip
	had has have header headers
	id identifier if ignored import imported importing imports in inconsistent incomplete incorrect index input inside
	instead integer integration internal into invalid is it its
	key keys kind
	large larger last least length less let lets limit limited limits line lines list load loaded loading local long longer
	made makes malformed many match matches matching max maximum maybe mandatory member memory min minimum mismatch missing mode more most
	multiple must
	name named names needed needs new no non not nothing null number numbers
	of off on one only open opened opening or order other out output over
	pair parse parsed parser parsing part partial parts path permission permitted please position possible problem process
	processed processing profile profiles property properties provided
	quota quote quoted quotes
	reached read reader reading reason received record records refused reject rejected rejects remote repeated request required
	requires retrieval retry returned row rows
	same schema second section see separator server service several short should size skipped small some source start
	started starts status still stopped storage stored string structure such support syntax supported system
	table target temporarily temporary terminated text than that the their them there they third this time timed timeout
	times to too total truncated twice type types
	unable unavailable unclosed under undefined unescaped unexpected unfinished unique unknown unmatched unreadable
	unrecognized unsupported until unterminated update updated upload uploaded use used using utf
	valid value values version
	was were when where which while whole will with within without wrong
	xml yet zero zip`)

// counting are the plain words beside which a number counts something.
var counting = wordSet(`attempt attempts byte bytes cell cells char character characters code column columns entries entry field fields
	file files index line lines position record records row rows status utf version`)

// marks may stand between words, as white space does.
const marks = ",;:.()[]{}-/#=!?\"'`_"

func isMark(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(marks, r) }

// pieces are words, whatever they are made of, and what stands between them, in
// turn.
func pieces(words string) (all []string) {
	for words != "" {
		first, _ := utf8.DecodeRuneInString(words)
		end := strings.IndexFunc(words, func(r rune) bool { return isMark(r) != isMark(first) })
		if end < 0 {
			end = len(words)
		}
		all, words = append(all, words[:end]), words[end:]
	}
	return all
}

var (
	// quoted is text in quotes, which do not stand within a word.
	quoted = regexp.MustCompile(`(^|[\s:=(\[,])("[^"]*"|'[^']*'|` + "`[^`]*`)")
	// digits is what is written with several numbers: a date, a time, a decimal number.
	digits = regexp.MustCompile(`\d+([.,:/-]\d+)+`)
	// partEnd ends a part of a sentence.
	partEnd = regexp.MustCompile(`[;:,!?()\[\]{}]+\s*|\.\s+|\.$`)
)

// plainly is the service's words without what a customer may have written; "" if
// nothing is left.
func plainly(words string) string {
	words = digits.ReplaceAllString(quoted.ReplaceAllString(unwrapped(words), "${1}"+left), left)
	var b strings.Builder
	said, gap := false, false // gap: what was written last stands for what is left out
	between, from := "", 0
	for _, end := range append(partEnd.FindAllStringIndex(words, -1), []int{len(words), len(words)}) {
		plain, says := plainPart(words[from:end[0]])
		if plain != left || !gap {
			b.WriteString(between + plain)
		}
		said, gap = said || says, plain == left
		between, from = words[end[0]:end[1]], end[1]
	}
	if !said {
		return ""
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// plainPart is a part of a sentence as it may be said, and whether it says anything.
func plainPart(text string) (plain string, says bool) {
	if strings.TrimSpace(text) == "" {
		return "", false
	}
	var b strings.Builder
	all := pieces(text)
	for i, piece := range all {
		switch {
		case strings.IndexFunc(piece, isMark) == 0:
			if strings.ContainsAny(piece, "\"'`") { // quotes that do not match
				return left, false
			}
		case plainWords[strings.ToLower(piece)]:
			says = true
		case piece == left, isNumber(piece) && counts(all, i):
		case isNumber(piece):
			piece = left
		default:
			return left, false
		}
		b.WriteString(piece)
	}
	if !says && !strings.ContainsAny(text, "0123456789") {
		return left, false
	}
	return b.String(), says
}

// unwrapped is a reason that is JSON as its texts alone.
func unwrapped(reason string) string {
	texts, err := textsOf([]byte(reason))
	if err != nil {
		return reason
	}
	return strings.Join(texts, ": ")
}

// textsOf are the texts in JSON, without their names.
func textsOf(body []byte) (texts []string, err error) {
	v, err := parse(body)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(v[name])
			}
		}
	}
	walk(v)
	return texts, err
}

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

func isNumber(piece string) bool { return strings.Trim(piece, "0123456789") == "" }

// counts reports whether the number at i stands beside a word that it counts. A
// longer one may be a customer's whatever it stands beside.
func counts(all []string, i int) bool {
	const longest = 7 // digits
	if len(all[i]) > longest {
		return false
	}
	before, after := i-2, i+2 // with what stands between
	return before >= 0 && counting[strings.ToLower(all[before])] || after < len(all) && counting[strings.ToLower(all[after])]
}

// Why an execution FAILED is told in words that the interface does not show. That
// the file itself is the reason, so that it fails again whenever it is sent, is
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
	text := spaced(r.Error)
	return faults.MatchString(text) && !maybePasses.MatchString(text)
}

func spaced(words string) string {
	return strings.ToLower(strings.NewReplacer("_", " ", "-", " ", `"`, "", "'", "", "\\", "").Replace(words))
}

// A file is too large by its bytes (oversize), or by its rows (overlong), unless the reason is of
// some of them only (ofSomeRows). Too many columns, or a cell that is too long (ofCells), are
// not meant. In doubt it is not too large: to halve a file takes imports of the day.
var (
	oversize = regexp.MustCompile(strings.Join([]string{
		`\b(file|body|payload|request|upload|entity|archive|content)( size| length)?( (is|was))? too (large|big|long)`,
		`\btoo (large|big) (a )?(file|body|payload|request|upload|entity|archive)`,
		`\b(file size|size of (the )?file)\b.*\b(exceed|above|over the|more than|maximum|limit)`,
		`\b(exceed\w*|above|over|maximum|max)\b.*\b(file size|size of (a |the )?file)\b`,
	}, "|"))
	overlong = regexp.MustCompile(strings.Join([]string{
		`\btoo many (\S+ )?(rows|lines|records)\b`,
		`\b(rows|lines|records|number of (rows|lines|records)|row count|line count|record count)\b.*\b(exceed|above|over the|more than|maximum|limit)`,
		`\b(exceed\w*|above|over|maximum|max)\b.*\b(rows|lines|records)\b`,
	}, "|"))
	ofSomeRows = regexp.MustCompile(`\b(errors|in error|error (threshold|rate|limit|ratio|count)|reject\w*|invalid|fail\w* (rows|lines|records)|(rows|lines|records) (\w+ )?fail\w*)\b`)
	ofCells    = regexp.MustCompile(`\b(column|field|cell|value)s?\b`)
)

// tooLarge reports whether the reason says that a file is larger than the service takes.
func tooLarge(reason string) bool {
	all, texts := spaced(reason), spaced(unwrapped(reason)) // a name in JSON, such as errors, is no word about rows
	switch {
	case ofCells.MatchString(texts):
		return false
	case oversize.MatchString(all):
		return true
	}
	return overlong.MatchString(all) && !ofSomeRows.MatchString(texts) && !faults.MatchString(all)
}

// TooLarge reports whether the reason of FAILED says that the file is larger than the
// service takes.
func (r Results) TooLarge() bool { return r.Status == Failed && tooLarge(r.Error) }
