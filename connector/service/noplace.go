package service

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A 404 says of operations 2, 3, 5, 6 and 7 that there is no such profile or record, and of 11
// and 12 that there is no such execution. It may say as well that the entity or the table does
// not exist, or the ETL: then the configuration is wrong, or somebody has taken the table away,
// and nothing is known of what was asked for. A delete is not confirmed by it, a patch is no
// dead letter, an execution is not forgotten. Its wording is not shown, so it is told by
// meaning. In doubt the answer is about the profile, the record or the execution.

// aboutOne reports whether the operation's 404 is about one thing in a place that exists.
func aboutOne(op operation) bool {
	switch op {
	case opPatchProfile, opDeleteProfile, opUpdateRecord, opGetRecord, opDeleteRecord, opResults, opOutputFiles:
		return true
	}
	return false
}

const (
	placeNoun = `(table|entity|etl)`
	placeName = `( (?:(?:named|called|with (?:the )?name|of (?:the )?name) )?([\w.$-]+))?`
	placeGone = `(not found|not exist(s|ing)?|doesn.?t exist|unknown|not known|undefined|not defined|not declared|missing|unrecogni[sz]ed|not recogni[sz]ed|` +
		`nonexistent|non existent|not there|not present|cannot be found|not be found|no longer exists?|been (deleted|removed|dropped)|(was|is) (deleted|removed|dropped))`
)

var (
	noPlaces = []*regexp.Regexp{
		// no such table, unknown entity: acme
		regexp.MustCompile(`\b(?:no|unknown|undefined|unrecogni[sz]ed|nonexistent|non existent|missing|invalid)(?: (?:such|known|matching))?(?: an?)? ` + placeNoun + `\b:?` + placeName),
		// the table customers was not found
		regexp.MustCompile(`\b` + placeNoun + placeName + `(?: (?:is|was|were|has|does|do|did|could|can))? ` + placeGone + `\b`),
		// cannot find the table
		regexp.MustCompile(`\b(?:can ?not|can.?t|could not|couldn.?t|unable to) (?:find|locate|resolve)(?: the| a| an| any)? ` + placeNoun + `\b` + placeName),
		// acme is not a known entity
		regexp.MustCompile(`\b(?:not an?|no) (?:(?:known|valid|existing) )?` + placeNoun + `\b` + placeName),
	}
	// onlyTable is a code or a text that says no more than that there is no table.
	onlyTable = regexp.MustCompile(`^(table ` + placeGone + `|(no such|unknown|undefined|missing|invalid) table)( (error|exception))?\W*$`)
	// oneThing is what is asked for in a table or an entity.
	oneThing = regexp.MustCompile(`\b(record|row|profile|key|id|identifier|uuid|entry|entries|contact|item|element|customer|subscriber|member|user|recipient|` +
		`person|line|object|document|value|query|execution|result|file|output)s?\b`)
	// noName is what follows the word table or entity where that is not its name: a table record.
	noName      = regexp.MustCompile(`^((record|row|profile|key|id|identifier|uuid|entry|entries|item|value|execution|result|file|output)s?|has|with|for|in|exception)$`)
	kindOfTable = regexp.MustCompile(`\b(profile|custom|customer|data|record|destination|target)s? ?tables?\b`)
	twoWords    = regexp.MustCompile(`(\p{Ll})(\p{Lu})`)
	// aRecord is what libraries say of a record, which is an entity of theirs.
	aRecord = regexp.MustCompile(`\bentity not found exception\b`)
)

// saysNoPlace reports whether the JSON of a 404 is about an entity, a table or an ETL that does
// not exist. name is what was asked for in it.
func saysNoPlace(body []byte, name string) bool {
	texts, err := textsOf(body)
	if err != nil {
		return false
	}
	said := false
	for _, text := range texts {
		text = aboutPlaces(text, name)
		if onlyTable.MatchString(text) {
			return true
		}
		rest, says := withoutPlace(text)
		if oneThing.MatchString(rest) || aRecord.MatchString(text) {
			return false
		}
		said = said || says
	}
	return said
}

// aboutPlaces is a text of an answer in plain words: what stands in quotes is a name, and what
// was asked for is a key.
func aboutPlaces(text, name string) string {
	if strings.Contains(text, "/") && !strings.Contains(text, " ") {
		return "" // a path or an address
	}
	if name != "" && strings.Contains(text, name) {
		text = regexp.MustCompile(`(^|\W)`+regexp.QuoteMeta(name)+`($|\W)`).ReplaceAllString(text, "$1 key $2")
	}
	text = quoted.ReplaceAllStringFunc(text, func(in string) string {
		if strings.Trim(in, " \t:=([,\"'`") == "key" {
			return " key"
		}
		return " x"
	})
	text = strings.Join(strings.Fields(spaced(twoWords.ReplaceAllString(text, "$1 $2"))), " ")
	return kindOfTable.ReplaceAllString(text, "table")
}

// withoutPlace reports whether the text says that a place does not exist, and what it says beside that.
func withoutPlace(text string) (rest string, says bool) {
	for _, words := range noPlaces {
		for _, at := range slices.Backward(words.FindAllStringSubmatchIndex(text, -1)) {
			if from, to := at[6], at[7]; from >= 0 && noName.MatchString(text[from:to]) {
				continue
			}
			text, says = text[:at[0]]+"."+text[at[1]:], true
		}
	}
	return text, says
}

// noPlaceText says what a person has to do.
func noPlaceText(op operation) string {
	if interfaceHas[op].method == http.MethodGet && op != opGetRecord {
		return "the service does not know the entity or the ETL; check service.entity and the ETL's id in the mapping's imports"
	}
	return "the service does not know the entity or the table; check service.entity and the table's name"
}
