package batcher

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// The service's words about a file may quote the cells that it objects to. What a
// log, a status or a page gets of them is the cause, with nothing that a customer
// may have written, and the columns of the file that they name; the words
// themselves wait for a person who asks for them.

// hear keeps the service's words about an import for whoever asks.
func (f *importRun) hear(imp Import, words string) {
	if words != "" {
		f.keep(imp, words)
	}
}

func (f *importRun) keep(imp Import, words string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastMessage = ServiceMessage{File: imp.File, Execution: imp.Execution, At: time.Now(), Words: words}
}

// failure keeps why an import FAILED and tells what may be said of it.
func (f *importRun) failure(imp Import, results Results) string {
	f.hear(imp, results.Reason)
	return cmp.Or(results.Cause, "for a reason of the service's own") + f.about(results.Reason)
}

// refusal is the end of a sentence about what the service refused.
func (f *importRun) refusal(by Failure) string {
	if cause := by.Cause(); cause != "" {
		return ": " + cause + f.about(by.Reason())
	}
	return f.about(by.Reason())
}

// about is which columns the service's words name and how to see them all; ""
// for none.
func (f *importRun) about(words string) string {
	if words == "" {
		return ""
	}
	if named := f.named(words); len(named) > 0 {
		return " (it names " + strings.Join(named, ", ") + ")" + f.toSee()
	}
	return f.toSee()
}

func (f *importRun) toSee() string {
	return "; all that the service said, which may be customers' data: feedsink imports show --mapping " + f.Name + " --show-reason"
}

// named are the headers of the line's files that stand in words, each as a word.
func (f *importRun) named(words string) (found []string) {
	said := strings.FieldsFunc(words, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_#", r)
	})
	for _, m := range f.members {
		for _, c := range m.Columns {
			if slices.Contains(said, c.Header) && !slices.Contains(found, c.Header) {
				found = append(found, c.Header)
			}
		}
	}
	return found
}

// recall notes an execution that FAILED under a former owner, with whose memory
// the service's words are gone, and says how to see them: they can be asked for.
func (f *importRun) recall(imp Import) string {
	f.keep(imp, "")
	return f.toSee()
}
