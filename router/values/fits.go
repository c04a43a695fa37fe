package values

import (
	"maps"
	"slices"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// results are examples of what conversions come to, so that whatever takes something of a
// conversion takes one of them.
var results = func() map[string][]schemas.Value {
	texts := map[string][]string{
		"date":      {"2006-01-02"},
		"timestamp": {localTime, "2006-01-02T15:04:05Z"},
		"email":     {"a@b.de"},
		"phone":     {"+33123456789", "0012345678"},
		"language":  {"fr"},
		"country":   {"FR"},
		"sex":       {"M", "F"},
		"title":     {"Mr", "Ms"},
		"utm":       {"1|2"},
		"string":    {"a", "0", "1.5", "true", "SENT"},
	}
	all := map[string][]schemas.Value{
		"integer": {Int(0), Int(1)},
		"number":  {Int(0), Int(1), schemas.NumberValue("1.5")},
		"boolean": {schemas.BoolValue(true)},
	}
	for _, as := range slices.Sorted(maps.Keys(texts)) {
		for _, text := range texts[as] {
			all[as] = append(all[as], schemas.StringValue(text))
			if as != "string" {
				all["string"] = append(all["string"], schemas.StringValue(text))
			}
		}
	}
	return all
}()

// results are examples of what the conversion comes to.
func (c *Converter) results() (all []schemas.Value) {
	switch {
	case c.list && c.each == nil:
		return []schemas.Value{schemas.ListValue(nil)}
	case c.list:
		for _, v := range c.each.results() {
			all = append(all, schemas.ListValue([]schemas.Field{{Value: v}}))
		}
		return all
	case c.as == "timestamp" && c.time != nil && c.time.neverZoned():
		return results[c.as][:1]
	}
	return results[c.as]
}

// fits reports a conversion of which the target refuses whatever it comes to: each record would
// be a dead letter.
func fits(at problem.Reporter, c *Converter, target *Target) {
	to := *target
	if to.typed != nil { // how long texts are is another matter
		to.typed = to.typed.ofConstant()
		to.typed.unlimited()
	}
	takes := func(v schemas.Value) bool {
		_, rule := to.Check(v, schemas.Create)
		return rule == ""
	}
	examples := c.results()
	if target.Name == "" || len(examples) == 0 || slices.ContainsFunc(examples, takes) {
		return // the first two are mistakes that have been reported
	}
	date := target.Section == schemas.DataCollection && target.Name == "date"
	switch {
	case date && c.as == "timestamp":
		at.Report("timezone", "write the time zone that is meant, such as Europe/Paris or UTC", "missing: dataCollection.date takes a timestamp with Z or an offset, and the format has none")
	case date:
		at.Report("as", "write as: timestamp", "%s is not what dataCollection.date takes: a timestamp with Z or an offset", c.as)
	case target.computed != notComputed:
		at.Report("as", "leave it out", "%s is not what the service computes for %s", c.as, target.Name)
	case target.Converts() && target.typed.each != nil && c.each != nil:
		at.Report("of", "write of: "+target.typed.each.as+"; or correct the type", "%s is not what `types` has for the elements of %s: %s", c.each.as, target.Name, target.typed.each.as)
	case target.Converts():
		at.Report("as", "write as: "+target.typed.as+"; or correct the type", "%s is not what `types` has for %s: %s", c.as, target.Name, target.typed.as)
	default:
		at.Report("as", "", "%s %s", c.as, refuses[target.Section])
	}
}

// unlimited has no text be too long.
func (c *Converter) unlimited() {
	c.limit = maxLength
	if c.each != nil {
		c.each.unlimited()
	}
}

// refuses says why a section could only refuse a conversion's result.
var refuses = map[schemas.Section]string{
	schemas.Attributes:     "is not what an attribute takes",
	schemas.Subscriptions:  "is not what a subscription takes: true or false",
	schemas.Segments:       "is not what a segmentation takes: true, false or the name of a segment",
	schemas.DataCollection: "is not what dataCollection takes: a timestamp, and text",
	schemas.Properties:     "is not what a property takes: text or a number",
}
