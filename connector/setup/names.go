package setup

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// wordsOf are the words of a name, in lower case: orderCreated_v2 is order, created, v2.
func wordsOf(name string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = nil
	}
	lower := false
	for _, c := range name {
		letter := unicode.IsLetter(c) || unicode.IsDigit(c)
		if !letter || unicode.IsUpper(c) && lower {
			end()
		}
		if letter {
			word = append(word, c)
		}
		lower = unicode.IsLower(c) || unicode.IsDigit(c)
	}
	end()
	return words
}

// bare is a name without what only joins its words.
func bare(names ...string) string { return strings.Join(wordsOf(strings.Join(names, ".")), "") }

// singular is good enough to find customerId in a table of customers.
func singular(word string) string {
	if stem, ok := strings.CutSuffix(word, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(word, "s")
}

var (
	technicalWords = []string{"event", "message", "msg", "trace", "span", "correlation", "causation", "request"}
	numberWords    = []string{"id", "key", "number", "num", "no", "nr", "code", "ref", "reference", "uuid", "guid"}
	keyWords       = append([]string{"mail", "email", "subject"}, numberWords...)
)

// anyOf reports whether some of the words are among others.
func anyOf(words, among []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(among, w) })
}

// keyLike says how much a name speaks of a key.
func keyLike(name string) int {
	words := wordsOf(name)
	switch {
	case anyOf(words, technicalWords):
		return 0
	case anyOf(words, keyWords):
		return 2
	}
	return 1
}

// reservedInExpressions are words that an expression has another use for.
var reservedInExpressions = []string{"in", "not", "and", "or", "let", "if", "else", "nil", "null", "true", "false", "matches", "contains", "startsWith", "endsWith"}

// inExpression reaches from an expression what is below value or headers. It names value,
// so that check does not ask for a field that reads the same.
func inExpression(root string, names ...string) string {
	var b strings.Builder
	b.WriteString(root)
	for _, name := range names {
		if plainName.MatchString(name) && !slices.Contains(reservedInExpressions, name) {
			b.WriteString("." + name)
		} else {
			b.WriteString("[" + strconv.Quote(name) + "]")
		}
	}
	return b.String()
}

// oneOf is the condition that an expression is one of some words.
func oneOf(expression string, words []string) string {
	if len(words) == 1 {
		return expression + " == " + strconv.Quote(words[0])
	}
	return expression + " in [" + listed(words, strconv.Quote) + "]"
}

// listed is what is written for each, with commas between them.
func listed[T any](all []T, written func(T) string) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = written(one)
	}
	return strings.Join(texts, ", ")
}
