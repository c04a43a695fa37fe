// Package said tells what may be said of the service's words about a file, which may quote
// the cells that it objects to. What a log, a status or a page gets of them is the cause,
// with nothing that a customer may have written, and the columns of the file that they
// name; the words themselves wait for a person who asks for them.
//
// It knows the headers of files. It knows nothing of what becomes of an import.
package said

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
)

// Kept keeps the words about a mapping's imports, or a bundle's. Its methods but Add may be
// called from any goroutine.
type Kept struct {
	mapping string
	headers []string // of its files

	mu   sync.Mutex
	last contract.ServiceMessage // zero: nothing was said
}

// New returns none of a mapping, which is that of a bundle by which a person asks.
func New(mapping string) *Kept { return &Kept{mapping: mapping} }

// Add adds columns of its files.
func (k *Kept) Add(columns []spool.Column) {
	for _, c := range columns {
		k.headers = append(k.headers, c.Header)
	}
}

// Last is what the service said last; false: nothing.
func (k *Kept) Last() (contract.ServiceMessage, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last, k.last.File != ""
}

// Failure keeps why an import FAILED and tells what may be said of it.
func (k *Kept) Failure(imp *contract.Import, results contract.Results) string {
	return cmp.Or(results.Cause, "for a reason of the service's own") + k.about(imp, results.Reason)
}

// Refusal keeps what the service refused a request with, and is the end of a sentence
// about that.
func (k *Kept) Refusal(imp *contract.Import, by contract.Failure) string {
	about := k.about(imp, by.Reason())
	if cause := by.Cause(); cause != "" {
		return ": " + cause + about
	}
	return about
}

// about keeps the service's words about an import, and is which columns they name and
// how to see them all; "" for none.
func (k *Kept) about(imp *contract.Import, words string) string {
	if words == "" {
		return ""
	}
	toSee := k.Keep(imp, words)
	if named := k.named(words); len(named) > 0 {
		return " (it names " + strings.Join(named, ", ") + ")" + toSee
	}
	return toSee
}

// Keep keeps the service's words for a person who asks, and is how to ask. None
// are of an execution that FAILED under a former owner, with whose memory they are gone:
// the service can be asked for them.
func (k *Kept) Keep(imp *contract.Import, words string) (toSee string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = contract.ServiceMessage{File: imp.File, Execution: imp.Execution, At: time.Now(), Words: words}
	return "; all that the service said, which may be customers' data: feedsink imports show --mapping " + k.mapping + " --show-reason"
}

// answersOwn are members that answers in JSON have of their own: no word about a column.
var answersOwn = regexp.MustCompile(`"(status|code|error|message|timestamp|path)"\s*:`)

// named are the headers that stand in words, each as a word.
func (k *Kept) named(words string) (found []string) {
	said := strings.FieldsFunc(answersOwn.ReplaceAllString(words, " "), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_#", c)
	})
	for _, h := range k.headers {
		if slices.Contains(said, h) && !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	return found
}
