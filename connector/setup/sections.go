package setup

import (
	"slices"
	"strconv"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

var (
	consentWords   = []string{"newsletter", "newsletters", "subscription", "subscriptions", "subscribed", "optin", "opt", "consent", "consents", "permission", "permissions"}
	consentObjects = []string{"consent", "consents", "subscription", "subscriptions", "optin", "optins", "permission", "permissions"}
	fillers        = []string{"opt", "in", "optin", "consent", "consents", "subscription", "subscriptions", "subscribed", "is", "has", "to", "permission", "permissions", "given"}
	segmentWords   = []string{"tier", "segment", "segmentation", "loyalty", "level", "grade"}
	segmentObjects = []string{"segment", "segments", "segmentation", "segmentations"}
	tagWords       = []string{"tags", "labels", "segments", "groups"}
	dateWords      = []string{"date", "at", "time", "timestamp", "when", "moment", "since"}
	sourceWords    = []string{"source", "origin"}
	wayWords       = []string{"way", "channel", "method", "form"}
)

const (
	fewSegments     = 12
	subscriptionsAt = "subscriptions#"
	segmentsAt      = "S_"
	dataCollection  = "dataCollection."
)

// sections finds what of a profile is no attribute: consents are subscriptions, tiers
// and tags are segmentations, and when, where and how a consent was given is its
// dataCollection.
func (t *table) sections() {
	taken := map[string]bool{}
	for _, f := range t.fields {
		taken[f.to] = true
	}
	move := func(f *field, to string) {
		if f != t.key && !taken[to] {
			taken[to], f.to = true, to
		}
	}
	for _, f := range t.fields {
		if f.consent() {
			f.as = "boolean"
			move(f, subscriptionsAt+f.withoutFillers())
		}
	}
	for _, f := range t.fields {
		for _, word := range f.tags() {
			if to := segmentsAt + camel([]string{word}); !taken[to] {
				taken[to] = true
				f.segments = append(f.segments, tag{word, to})
			}
		}
	}
	consents := slices.ContainsFunc(t.fields, func(f *field) bool { return strings.HasPrefix(f.to, subscriptionsAt) })
	for _, f := range t.fields {
		last, inConsent := f.lastWords(), f.within(consentObjects) || anyOf(f.lastWords(), consentWords)
		switch {
		case f.segment():
			move(f, segmentsAt+camel(f.names[len(f.names)-1:]))
		case !consents || !inConsent || strings.HasPrefix(f.to, subscriptionsAt):
		case f.as == "timestamp" && anyOf(last, dateWords):
			move(f, dataCollection+"date")
		case f.as == "" && anyOf(last, sourceWords):
			move(f, dataCollection+"source")
		case f.as == "" && anyOf(last, wayWords):
			move(f, dataCollection+"way")
		}
	}
}

// last is the name of the member that holds the field.
func (f *field) last() string { return f.names[len(f.names)-1] }

func (f *field) lastWords() []string { return wordsOf(f.last()) }

// within reports whether one of the members that lead to the field has such a name.
func (f *field) within(objects []string) bool {
	return slices.ContainsFunc(f.names[:len(f.names)-1], func(name string) bool { return slices.Contains(objects, bare(name)) })
}

// consent holds for what is true or false, and named as a consent. 0 and 1 stand for
// both where both occur.
func (f *field) consent() bool {
	digits := f.as == "integer" && slices.ContainsFunc(f.values, func(v schemas.Value) bool { return v.Text() == "0" }) &&
		f.all(func(v schemas.Value) bool { return v.Text() == "0" || v.Text() == "1" })
	return (f.as == "boolean" || digits) && (f.within(consentObjects) || anyOf(f.lastWords(), consentWords))
}

// withoutFillers is the name of a subscription: optInSms is sms.
func (f *field) withoutFillers() string {
	var left []string
	for _, word := range f.lastWords() {
		if !slices.Contains(fillers, word) {
			left = append(left, word)
		}
	}
	if len(left) == 0 {
		left = f.lastWords()
	}
	return camel(left)
}

// segment holds for few texts that are named as a segmentation, and for what stands
// in an object of segments.
func (f *field) segment() bool {
	if f.within(segmentObjects) {
		return f.as == "" || f.as == "boolean"
	}
	return f.as == "" && anyOf(f.lastWords(), segmentWords) && len(f.texts()) <= fewSegments &&
		f.all(func(v schemas.Value) bool { return v.Kind() == schemas.String })
}

// texts are those of its values, each once.
func (f *field) texts() map[string]bool {
	texts := map[string]bool{}
	for _, v := range f.values {
		texts[v.Text()] = true
	}
	return texts
}

// tag is one of the words of a list, and the segmentation that it stands for.
type tag struct{ word, to string }

// tags are the words of a list of tags that several records share, as an expression
// may compare them; none where it is no such list.
func (f *field) tags() (tags []string) {
	if f.as != "list" || !anyOf(f.lastWords(), tagWords) {
		return nil
	}
	counts := map[string]int{}
	for _, v := range f.values {
		for _, element := range v.Items() {
			word := element.Value.Text()
			if element.Value.Kind() != schemas.String || !kindWord.MatchString(word) {
				return nil
			}
			if counts[word]++; counts[word] == 2 {
				tags = append(tags, word)
			}
		}
	}
	if len(counts) > fewSegments {
		return nil
	}
	return tags
}

// tagExpression says whether a record has a tag; nothing where it has no tags.
func (f *field) tagExpression(tag string) string {
	list := inExpression("value", f.names...)
	return list + " == nil ? nil : " + strconv.Quote(tag) + " in " + list
}
