package setup

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// wordPairs stand for true and false, in lower case.
var wordPairs = [][2]string{
	{"y", "n"},
	{"yes", "no"},
	{"j", "n"},
	{"ja", "nein"},
	{"o", "n"},
	{"oui", "non"},
	{"t", "f"},
	{"on", "off"},
	{"true", "false"},
	{"1", "0"},
	{"granted", "denied"},
	{"granted", "revoked"},
	{"given", "withdrawn"},
	{"accepted", "declined"},
	{"accepted", "refused"},
	{"opt-in", "opt-out"},
	{"optin", "optout"},
	{"opt_in", "opt_out"},
	{"subscribed", "unsubscribed"},
	{"enabled", "disabled"},
}

// guessWriting finds booleans in words of which both occur, and numbers with a decimal
// comma or point. Three digits behind each might be thousands, and codes have points, too.
func (f *field) guessWriting() {
	if !f.areAll(schemas.String) {
		return
	}
	for _, pair := range wordPairs {
		if trues, falses, ok := f.spellings(pair); ok {
			f.as, f.trues = "boolean", trues
			if pair != [2]string{"true", "false"} && pair != [2]string{"1", "0"} || len(trues)+len(falses) > 2 {
				quoted := func(word string) string { return "'" + word + "'" }
				f.source = "true: [" + listed(trues, quoted) + "], false: [" + listed(falses, quoted) + "]"
			}
			return
		}
	}
	switch {
	case f.decimals(comma, ","):
		f.as, f.source = "number", "decimal: ','"
	case keyLike(f.last()) != 2 && f.decimals(point, "."):
		f.as = "number"
	}
}

// decimals reports whether all texts are numbers of that form, and some of them have a
// fraction that is no group of thousands.
func (f *field) decimals(form *regexp.Regexp, separator string) bool {
	return f.all(func(v schemas.Value) bool { return form.MatchString(v.Text()) }) &&
		slices.ContainsFunc(f.values, func(v schemas.Value) bool {
			_, fraction, _ := strings.Cut(v.Text(), separator)
			return fraction != "" && len(fraction) != len("000")
		})
}

var (
	pointThousands = regexp.MustCompile(`^-?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$`)
	commaThousands = regexp.MustCompile(`^-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$`)
)

// otherwise is what a person may write instead of the field's line, and when: a number,
// where something stands between thousands, or a time, where it counts from 1970. "" where
// it is neither.
func (f *field) otherwise() (entry, when string) {
	switch {
	case strings.HasPrefix(f.to, segmentsAt), strings.HasPrefix(f.to, dataCollection): // these take neither
	case f.as == "" && f.areAll(schemas.String):
		if entry, when = f.thousands(); entry == "" {
			entry, when = f.sinceEpoch(), "it is a time"
		}
		return entry, "the text above, if " + when
	case f.source == "" && f.areAll(schemas.Number):
		return f.sinceEpoch(), "the number above, if it is a time since 1970"
	}
	return "", ""
}

func (f *field) areAll(kind schemas.Kind) bool {
	return f.all(func(v schemas.Value) bool { return v.Kind() == kind })
}

// thousands is the field as a number, where some of its texts have both separators: they
// alone say which is which.
func (f *field) thousands() (entry, when string) {
	both := slices.ContainsFunc(f.values, func(v schemas.Value) bool {
		return strings.Contains(v.Text(), ".") && strings.Contains(v.Text(), ",")
	})
	for _, way := range []struct {
		form           *regexp.Regexp
		between, after string
	}{{pointThousands, ".", ", decimal: ','"}, {commaThousands, ",", ""}} {
		if both && f.all(func(v schemas.Value) bool { return way.form.MatchString(v.Text()) }) {
			expression := fmt.Sprintf(`replace(%s, %q, "")`, inExpression("value", f.names...), way.between)
			return fmt.Sprintf("{expr: %s, to: %s, as: number%s}", quoted(expression), quoted(f.to), way.after), way.between + " stands between thousands"
		}
	}
	return "", ""
}

// sinceEpoch is the field as a time, where it counts from 1970 and its name speaks of no key.
func (f *field) sinceEpoch() (entry string) {
	for _, way := range []struct {
		digits int
		format string
		at     func(int64) time.Time
	}{{len("1700000040"), "epochSeconds", unixSeconds}, {len("1700000040000"), "epochMillis", time.UnixMilli}} {
		isTime := func(v schemas.Value) bool { return len(v.Text()) == way.digits && inThisTime(v.Text(), way.at) }
		if keyLike(f.last()) != 2 && f.all(isTime) {
			return fmt.Sprintf("{from: %s, to: %s, as: timestamp, format: %s}", quoted(f.path), quoted(f.to), way.format)
		}
	}
	return ""
}

// spellings are the ways in which both words of a pair are written; ok is false where
// there are other words, or one of the two is missing.
func (f *field) spellings(pair [2]string) (trues, falses []string, ok bool) {
	for _, v := range f.values {
		of, word := &trues, v.Text()
		switch strings.ToLower(v.Text()) {
		case pair[0]:
		case pair[1]:
			of = &falses
		default:
			return nil, nil, false
		}
		if !slices.Contains(*of, word) {
			*of = append(*of, word)
		}
	}
	return trues, falses, len(trues) > 0 && len(falses) > 0
}
