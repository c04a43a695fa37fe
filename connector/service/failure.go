package service

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The service's reason for FAILED may quote the cells that it objects to. What of
// it may be said anywhere is its plain words: those that speak of files and their
// structure, and the numbers that count rows and columns. All else is left out.

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
	delimiter did different directory do does download duplicate duplicated duplicates during
	each either empty encoded encoding end ended ending ends enough entries entry error errors etl exceed exceeded exceeds
	execution exist existing exists expected expecting expects extension extra
	fail failed fails failure fatal fault few fewer field fields file filename files first for format formats found from
	general global got greater gz gzip
	had has have header headers
	id identifier if ignored import imported importing imports in inconsistent incomplete incorrect index input inside
	instead integration internal into invalid is it its
	key keys kind
	large larger last least length less limit limited limits line lines list load loaded loading local long longer
	malformed many match matches matching max maximum maybe mandatory member min minimum mismatch missing mode more most
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
const marks = ",;:.()[]{}-/#=!\"'`"

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

// plainly is the service's words without what a customer may have written; "" if
// nothing is left.
func plainly(words string) string {
	var b strings.Builder
	all := pieces(words)
	between := ""             // marks that belong to what follows them
	said, gap := false, false // gap: what was written last stands for what is left out
	for i, piece := range all {
		switch {
		case strings.IndexFunc(piece, isMark) == 0:
			between = piece
			continue
		case plainWords[strings.ToLower(piece)]:
			said, gap = true, false
		case isNumber(piece) && counts(all, i):
			gap = false
		case gap:
			between = "" // and what stands between two of them tells nothing
			continue
		default:
			piece, gap = left, true
		}
		b.WriteString(between + piece)
		between = ""
	}
	if !said {
		return ""
	}
	return strings.Join(strings.Fields(b.String()+between), " ")
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
