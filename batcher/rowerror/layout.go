package rowerror

import (
	"bytes"
	"encoding/csv"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/feedsink/feedsink/schemas"
)

// layout is what the columns of one file mean.
type layout struct {
	key      int   // -1: there is none
	others   []int // columns that are neither the import's own nor those below
	reasons  []int // columns that say why
	outcome  int   // column that says what became of a row; -1: none
	accepted bool  // its rows are not in error unless their columns say so
	marked   bool  // its name or a column says of what kind it is
}

// Parts of names and outcomes, in lower case.
var (
	errorWords   = []string{"error", "reject", "refus", "invalid", "fail", "discard", "skip"}
	resultWords  = []string{"result", "success", "accept", "integrat", "loaded"}
	outcomeWords = []string{"result", "status", "outcome", "state"}
	reasonWords  = append([]string{"reason", "message", "cause", "code", "detail", "comment", "description"}, errorWords...)
	goodWords    = append([]string{"insert", "creat", "updat", "delet", "upsert", "modif", "add", "remov", "merg", "ignored", "valid", "unchanged", "import", "process", "done", "complet", "succe"}, resultWords...)
)

var (
	wordsOf = regexp.MustCompile(`\p{Lu}*\p{Ll}+|\p{Lu}+|\p{L}+|\d+`)
	negates = regexp.MustCompile(`^(no|not|non|never|without|0)$`)
	yes     = regexp.MustCompile(`^(ok|okay|yes|true)$`)
)

// Names of files in words, in lower case: beside parts of words these are whole ones.
var (
	refusedName  = regexp.MustCompile(`\b(ko|nok|(not|non|un) ?(inserted|created|updated|loaded|ok|accepted|integrated|imported|processed))\b`)
	acceptedName = regexp.MustCompile(`\b(ok|inserted|created|updated)\b`)
)

// outcomeOf tells what a cell says of its row by whole words: what is said of an error is bad,
// of no error good. Neither is what it has no word for.
func outcomeOf(cell string) (good, bad bool) {
	negated := false
	for _, word := range wordsOf.FindAllString(cell, -1) {
		word = strings.ToLower(word)
		begins := func(with string) bool { return strings.HasPrefix(word, with) }
		isGood := yes.MatchString(word) || slices.ContainsFunc(goodWords, begins)
		isBad := word == "ko" || word == "nok" || slices.ContainsFunc(errorWords, begins)
		switch {
		case negates.MatchString(word):
			negated = true
		case negated && (word == "found" || begins("chang")): // nothing to delete, nothing to change
			good, negated = true, false
		case isGood || isBad:
			good, bad = good || isGood != negated, bad || isBad != negated
			negated = false
		}
	}
	return good && !bad, bad
}

// layout tells a file of rows in error from one of accepted rows: by its name,
// else by the columns that the service has added.
func (f Format) layout(name string, header []string) layout {
	l := layout{key: column(header, f.Key), outcome: -1}
	for i, h := range header {
		switch {
		case column(f.Columns, strings.TrimSpace(h)) >= 0:
		case last(h, reasonWords) >= 0:
			l.reasons = append(l.reasons, i)
		case last(h, outcomeWords) >= 0:
			l.outcome = i
		default:
			l.others = append(l.others, i)
		}
	}
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	if stem := f.stem(); stem != "" {
		name = strings.ReplaceAll(name, stem, "")
	}
	words := strings.ToLower(strings.Join(wordsOf.FindAllString(name, -1), " "))
	l.marked = true
	switch bad, good := last(name, errorWords), last(name, resultWords); {
	case bad > good, refusedName.MatchString(words):
	case good > bad, acceptedName.MatchString(words):
		l.accepted = true
	default:
		l.accepted = l.outcome >= 0
		l.marked = l.accepted || len(l.reasons) > 0
	}
	return l
}

// stem is the name of the import's file without what may follow it in others.
func (f Format) stem() string {
	stem, _, _ := strings.Cut(f.File, ".csv")
	return stem
}

// last is where the last of the words begins in the text; -1: none is there.
func last(text string, words []string) int {
	text = strings.ToLower(text)
	at := -1
	for _, word := range words {
		at = max(at, strings.LastIndex(text, word))
	}
	return at
}

func (l layout) inError(cells []string) bool {
	if !l.accepted {
		return true
	}
	if l.outcome < 0 || l.outcome >= len(cells) {
		return false
	}
	good, bad := outcomeOf(cells[l.outcome])
	// A row of which nothing is known is in error: one too many is a dead letter of a row
	// that is loaded, one too few is lost.
	return bad || !good && (l.reason(cells) != "" || strings.ContainsFunc(cells[l.outcome], unicode.IsLetter))
}

// maxReason bounds a reason in characters.
const maxReason = 500

// reason joins what the columns say: `TOO_LONG: longer than 255 characters`.
func (l layout) reason(cells []string) string {
	var said []string
	for _, i := range l.reasons {
		if i < len(cells) && cells[i] != "" {
			said = append(said, cells[i])
		}
	}
	text := []rune(strings.Join(said, ": "))
	return string(text[:min(len(text), maxReason)])
}

const (
	noun    = `(profile|record|row|key|contact|entry|id)`
	missing = `((is |was |were )?not[ _-]?found|does[ _-]?n[o']t[ _-]?exist|do not exist|(is )?not[ _-]?there)`
)

var (
	// nothingToDelete matches the words of a service that puts a DELETE row in error
	// because there is nothing to delete, if it is not for want of somethingElse. In doubt
	// the row is a dead letter: it may be in the table still.
	nothingToDelete = regexp.MustCompile(`(?i)^\W*` + missing + `\W*$|\bNOT_FOUND\b|\b` + noun + `s?\b[^.:;]*\b` + missing + `|\b` + noun + `_` + missing +
		`|\bno[ _](such|matching)[ _]` + noun + `|\bno ` + noun + `s?( (has|have|with|for|of|match\w*|exists?|found)\b|\W*$)`)
	somethingElse = regexp.MustCompile(`(?i)attribute|column|field|mapping|\bright|permission|locked|denied|forbidden|\btable[ _]` + missing)
	// existsAlready matches the words of a service that puts a CREATE_ONLY row in error
	// because its key is in the table: a repeated create, no sign of a mistake.
	existsAlready = regexp.MustCompile(`(?i)already|exists|duplicate|conflict`)
)

// NothingToDelete reports whether a row of the operation is in error because there is
// nothing to delete: it is as it was to be.
func (r *Row) NothingToDelete(op schemas.Op) bool {
	return op == schemas.Delete && nothingToDelete.MatchString(r.Reason) && !somethingElse.MatchString(r.Reason)
}

// Harmless reports whether a row of the operation, though in error, is no sign of a
// mistake: what it was to do is done.
func (r *Row) Harmless(op schemas.Op) bool {
	return r.NothingToDelete(op) || op == schemas.Create && existsAlready.MatchString(r.Reason)
}

// CSV is the row under its header.
func (r *Row) CSV() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.WriteAll([][]string{r.Header, r.Cells})
	return b.Bytes(), err
}

// What a row takes besides its texts: itself and its place among others (rowBytes), and its
// cells, empty ones, too.
const rowBytes, cellBytes = 400, 16

// Len is how many bytes it takes, its header apart.
func (r *Row) Len() int {
	n := rowBytes + cellBytes*cap(r.Cells) + len(r.Reason)
	for _, cell := range r.Cells {
		n += len(cell)
	}
	return n
}
