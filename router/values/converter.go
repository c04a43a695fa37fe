// Package values converts and checks what is written to the fields of a table: the
// attribute value formats and the standard formats of the interface's document.
//
// It knows a value and the field that it is for. It knows nothing of records,
// mappings and lanes.
package values

import (
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// MaxText is the length of a string in characters unless the attribute's
// definition says otherwise, which is what `types` is for.
const MaxText = 255

// The rules of the attribute value formats and the standard formats, as they
// are read in dead letters.
const (
	ruleText      = "must be text"
	ruleInteger   = "must be a whole number from -2147483648 to 2147483647"
	ruleNumber    = "must be a number: digits with an optional leading - and a decimal point"
	ruleThousands = ", with nothing between thousands"
	ruleBoolean   = "must be true or false"
	ruleWords     = ruleBoolean + ", or one of the field's words for them"
	ruleDate      = "must be a date like 2006-01-02"
	ruleTimestamp = "must be a timestamp like 2006-01-02T15:04:05, optionally with Z or an offset"
	ruleEmail     = "must be an e-mail address"
	rulePhone     = "must be a phone number with its international prefix, of digits, spaces and + ( ) . - /"
	ruleLanguage  = "must be an ISO 639-1 language of two letters"
	ruleCountry   = "must be an ISO 3166-1 alpha-2 country of two letters"
	ruleSex       = "must be M or F"
	ruleTitle     = "must be Mr, Mrs or Ms"
	ruleUTM       = "must be a latitude and a longitude separated by |"
	ruleScalar    = "must be text, a number, true or false"
	ruleElements  = "must be a list of text, numbers, true or false"
)

// ruleLength is the rule of a string's length.
func ruleLength(limit int) string { return "at most " + strconv.Itoa(limit) + " characters" }

// Converter is a conversion with what the configuration says about it.
type Converter struct {
	as      string      // the conversion's word
	convert conversion  // nil: only the length of texts is known
	list    bool        // the conversion makes lists
	scale   int         // of numbers: the power of ten they are multiplied with
	limit   int         // of text, in characters; 0: MaxText
	time    *timeFormat // of dates and timestamps; nil: as the interface writes them
	trues   []string    // of booleans: what the source writes for true, before the usual
	falses  []string    // and for false
	comma   bool        // of numbers: texts have a comma in the place of the point
	each    *Converter  // of the elements of a list; nil: any scalar
}

// Convert makes a table's value of a source value that is neither absent nor null,
// or names the rule that the source value breaks.
func (c *Converter) Convert(v schemas.Value) (out schemas.Value, rule string) { return c.convert(v, c) }

// conversion is what Convert does, by the word after `as:`.
type conversion func(v schemas.Value, c *Converter) (out schemas.Value, rule string)

var conversions = map[string]conversion{
	"string":    asString,
	"integer":   asInteger,
	"number":    asNumber,
	"boolean":   asBoolean,
	"date":      asDate,
	"timestamp": asTimestamp,
	"list":      asList,
	"email":     textual(ruleEmail, email),
	"phone":     textual(rulePhone, phone),
	"language":  textual(ruleLanguage, languageCode),
	"country":   textual(ruleCountry, countryCode),
	"sex":       textual(ruleSex, func(s string) (string, bool) { return s, s == "M" || s == "F" }),
	"title":     textual(ruleTitle, func(s string) (string, bool) { return s, s == "Mr" || s == "Mrs" || s == "Ms" }),
	"utm":       textual(ruleUTM, utm),
}

// Spec is what the configuration says of a conversion, in the members of a mapping's
// fields and types.
type Spec struct {
	As, Of           string
	Scale            int
	Format, Timezone string
	True, False      []string
	Decimal          string // "" or a point: a point; or a comma
	Length           int    // 0: that of the target
}

const (
	maxScale  = 100     // far beyond the digits of any currency
	maxLength = 1 << 20 // a text beyond it is no attribute
)

// New compiles a conversion for a target and reports what of it cannot work; nil
// where there is nothing to convert.
func New(at problem.Reporter, spec Spec, target *Target) *Converter {
	c := newConverter(at, spec.As, spec.Of)
	numeric, temporal := spec.As, spec.As
	if spec.Of != "" {
		numeric, temporal = spec.Of, spec.Of
	}
	switch {
	case spec.Scale != 0 && numeric != "number" && numeric != "integer":
		at.Report("scale", "write as: number", "only a number has a scale")
	case spec.Scale < -maxScale || spec.Scale > maxScale:
		at.Report("scale", "", "%d: from -%d to %d", spec.Scale, maxScale, maxScale)
	}
	if spec.Length < 0 || spec.Length > maxLength {
		at.Report("length", "", "%d: from 1 to %d, or 0 for %d", spec.Length, maxLength, MaxText)
	}
	var format *timeFormat
	if temporal == "date" || temporal == "timestamp" {
		format = newTimeFormat(at, spec.Format, spec.Timezone, temporal == "date")
	} else {
		for _, key := range []struct{ name, text string }{{"format", spec.Format}, {"timezone", spec.Timezone}} {
			if key.text != "" {
				at.Report(key.name, "write as: date or as: timestamp", "only a date or a timestamp has a %s", key.name)
			}
		}
	}
	checkWords(at, spec, temporal)
	checkDecimal(at, spec.Decimal, numeric)
	if c == nil {
		if spec.Length == 0 {
			return nil
		}
		return &Converter{limit: spec.Length}
	}
	c.limit = spec.Length
	if target.typed != nil && c.limit == 0 {
		c.limit = target.typed.limit
	}
	of := c
	if c.each != nil {
		of = c.each
		of.limit = c.limit
	}
	of.scale, of.time = spec.Scale, format
	of.trues, of.falses, of.comma = spec.True, spec.False, spec.Decimal == ","
	fits(at, c, target)
	return c
}

// checkWords refuses words for true and false that can never count, or count for both.
func checkWords(at problem.Reporter, spec Spec, as string) {
	for _, key := range []struct {
		name  string
		words []string
	}{{"true", spec.True}, {"false", spec.False}} {
		if len(key.words) > 0 && as != "boolean" {
			at.Report(key.name, "write as: boolean", "only a boolean has words for %s", key.name)
		}
	}
	for i, word := range spec.False {
		if slices.Contains(spec.True, word) {
			at.Report("false["+strconv.Itoa(i)+"]", "", "%q is a word for true, too", word)
		}
	}
}

func checkDecimal(at problem.Reporter, decimal, as string) {
	switch {
	case decimal == "":
	case decimal != "," && decimal != ".":
		at.Report("decimal", `write "," or "."`, "%q is not a decimal separator", decimal)
	case as != "number" && as != "integer":
		at.Report("decimal", "write as: number", "only a number has a decimal separator")
	}
}

// newConverter finds the conversions of `as` and `of`, nil where there is no as.
func newConverter(at problem.Reporter, as, of string) *Converter {
	words := slices.Sorted(maps.Keys(conversions))
	if of != "" && as != "list" {
		at.Report("of", "write as: list", "only a list has elements")
	}
	if as == "" {
		return nil
	}
	c := &Converter{as: as, convert: conversions[as], list: as == "list"}
	if c.convert == nil {
		at.Report("as", problem.Suggest(as, words...), "unknown conversion %q", as)
		return nil
	}
	if of != "" {
		c.each = &Converter{as: of, convert: conversions[of]}
		switch {
		case of == "list":
			at.Report("of", "", "a list holds no lists")
		case c.each.convert == nil:
			at.Report("of", problem.Suggest(of, words...), "unknown conversion %q", of)
			return nil
		}
	}
	return c
}

// ofConstant is the conversion of what the configuration itself says: it is written
// as the table takes it, and
// nothing applies that says how the source writes it.
func (c *Converter) ofConstant() *Converter {
	constant := &Converter{as: c.as, convert: c.convert, limit: c.limit}
	if c.each != nil {
		constant.each = c.each.ofConstant()
	}
	return constant
}

// bounded is v unless its text is too long.
func (c *Converter) bounded(v schemas.Value) (schemas.Value, string) {
	limit := MaxText
	if c != nil && c.limit > 0 {
		limit = c.limit
	}
	// Characters are counted only where the bytes leave it open.
	if s := v.Text(); len(s) > limit && utf8.RuneCountInString(s) > limit {
		return schemas.Value{}, ruleLength(limit)
	}
	return v, ""
}

// textual is a conversion of text, bounded like every string.
func textual(rule string, convert func(string) (string, bool)) conversion {
	return func(v schemas.Value, c *Converter) (schemas.Value, string) {
		if v.Kind() != schemas.String {
			return schemas.Value{}, rule
		}
		s, ok := convert(v.Text())
		if !ok {
			return schemas.Value{}, rule
		}
		return c.bounded(schemas.StringValue(s))
	}
}

// asString takes text as it is; numbers and booleans as they were written.
func asString(v schemas.Value, c *Converter) (schemas.Value, string) {
	switch v.Kind() {
	case schemas.String:
		return c.bounded(v)
	case schemas.Number, schemas.Bool:
		return c.bounded(schemas.StringValue(v.Text()))
	}
	return schemas.Value{}, ruleText
}

// asBoolean takes a boolean, its word, and the numbers 0 and 1, with which
// databases that have no boolean write it; before these, the configuration's words.
func asBoolean(v schemas.Value, c *Converter) (schemas.Value, string) {
	rule := ruleBoolean
	if v.Kind() != schemas.Bool && v.Kind() != schemas.String && v.Kind() != schemas.Number {
		return schemas.Value{}, rule
	}
	text := v.Text()
	if c != nil && len(c.trues)+len(c.falses) > 0 {
		rule = ruleWords
		switch {
		case slices.Contains(c.trues, text):
			return schemas.BoolValue(true), ""
		case slices.Contains(c.falses, text):
			return schemas.BoolValue(false), ""
		}
	}
	switch text {
	case "true", "1":
		return schemas.BoolValue(true), ""
	case "false", "0":
		return schemas.BoolValue(false), ""
	}
	return schemas.Value{}, rule
}

// asList takes a list as it is and makes a list of a single value.
func asList(v schemas.Value, c *Converter) (schemas.Value, string) {
	if v.Kind() != schemas.List {
		v = schemas.ListValue([]schemas.Field{{Value: v}})
	}
	return elements(v, c)
}

// elements takes a list of scalars, each as c.each says. The list is copied only
// where an element has to be written differently.
func elements(v schemas.Value, c *Converter) (schemas.Value, string) {
	convert, each := conversion(scalar), c
	if c != nil && c.each != nil {
		convert, each = c.each.convert, c.each
	}
	items := v.Items()
	copied := false
	for i := range items {
		element, rule := convert(items[i].Value, each)
		switch {
		case rule == ruleScalar:
			return schemas.Value{}, ruleElements
		case rule != "":
			return schemas.Value{}, "each element: " + rule
		case element.Kind() != items[i].Value.Kind() || element.Text() != items[i].Value.Text():
			if !copied {
				items, copied = slices.Clone(items), true
			}
			items[i].Value = element
		}
	}
	if copied {
		return schemas.ListValue(items), ""
	}
	return v, ""
}

// scalar takes text, numbers, true and false.
func scalar(v schemas.Value, c *Converter) (schemas.Value, string) {
	switch v.Kind() {
	case schemas.String:
		return c.bounded(v)
	case schemas.Number:
		if isPlainNumber(v.Text()) {
			return v, ""
		}
		return asNumber(v, &Converter{})
	case schemas.Bool:
		return v, ""
	}
	return schemas.Value{}, ruleScalar
}
