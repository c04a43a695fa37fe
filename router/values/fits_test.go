package values

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

func TestConversionsThatTheTargetNeverTakesAreRefused(t *testing.T) {
	at := func(section schemas.Section, name string) Target {
		return NewTarget(schemas.Place{Section: section, Name: name}, nil)
	}
	typed := func(as, of string) Target {
		none := at(schemas.Attributes, "x")
		return NewTarget(none.Place, New(problem.NewReporter("", new([]problem.Problem)), Spec{As: as, Of: of, Length: 1}, &none))
	}
	date := at(schemas.DataCollection, "date")
	for _, tc := range []struct {
		target Target
		spec   Spec
		want   string // "": it works
	}{
		{date, Spec{As: "timestamp"}, ""},
		{date, Spec{As: "string"}, ""},
		{date, Spec{As: "timestamp", Format: "epochMillis"}, ""},
		{date, Spec{As: "timestamp", Format: "%d.%m.%Y %H:%M %z"}, ""},
		{date, Spec{As: "timestamp", Format: "%d.%m.%Y %H:%M", Timezone: "Europe/Paris"}, ""},
		{date, Spec{As: "timestamp", Format: "epochDays", Timezone: "UTC"}, ""},
		{date, Spec{As: "timestamp", Format: "epochDays"}, "timezone: missing: dataCollection.date takes a timestamp with Z or an offset, and the format has none; hint: write the time zone that is meant, such as Europe/Paris or UTC"},
		{date, Spec{As: "timestamp", Format: "%d.%m.%Y %H:%M"}, "timezone: missing: dataCollection.date takes a timestamp with Z or an offset, and the format has none; hint: write the time zone that is meant, such as Europe/Paris or UTC"},
		{date, Spec{As: "date"}, "as: date is not what dataCollection.date takes: a timestamp with Z or an offset; hint: write as: timestamp"},
		{date, Spec{As: "email"}, "as: email is not what dataCollection.date takes: a timestamp with Z or an offset; hint: write as: timestamp"},
		{date, Spec{As: "list", Of: "timestamp"}, "as: list is not what dataCollection.date takes: a timestamp with Z or an offset; hint: write as: timestamp"},
		{at(schemas.DataCollection, "way"), Spec{As: "email"}, ""},
		{at(schemas.DataCollection, "way"), Spec{As: "boolean"}, "as: boolean is not what dataCollection takes: a timestamp, and text"},
		{at(schemas.Segments, "x"), Spec{As: "boolean"}, ""},
		{at(schemas.Subscriptions, "x"), Spec{As: "string"}, "as: string is not what a subscription takes: true or false"},
		{at(schemas.Properties, "x"), Spec{As: "list", Of: "string"}, "as: list is not what a property takes: text or a number"},
		{at(schemas.Attributes, "goalReachedRecency"), Spec{As: "date"}, "as: date is not what the service computes for goalReachedRecency; hint: leave it out"},
		{at(schemas.Attributes, "goalReachedRecency"), Spec{As: "timestamp"}, ""},
		{at(schemas.Attributes, "lastMailActivityStatus"), Spec{As: "string"}, ""},
		{typed("integer", ""), Spec{As: "date"}, "as: date is not what `types` has for x: integer; hint: write as: integer; or correct the type"},
		{typed("timestamp", ""), Spec{As: "date"}, "as: date is not what `types` has for x: timestamp; hint: write as: timestamp; or correct the type"},
		{typed("date", ""), Spec{As: "timestamp"}, ""},
		{typed("string", ""), Spec{As: "email"}, ""}, // a length is another matter
		{typed("", ""), Spec{As: "email"}, ""},
		{typed("list", "integer"), Spec{As: "list", Of: "email"}, "of: email is not what `types` has for the elements of x: integer; hint: write of: integer; or correct the type"},
		{typed("list", "integer"), Spec{As: "list"}, ""},
		{typed("email", ""), Spec{As: "list"}, "as: list is not what `types` has for x: email; hint: write as: email; or correct the type"},
	} {
		var problems []problem.Problem
		New(problem.NewReporter("", &problems), tc.spec, &tc.target)
		got := ""
		for _, p := range problems {
			got += p.String()
		}
		if len(got) > 0 && got[0] == '.' {
			got = got[1:]
		}
		if got != tc.want {
			t.Errorf("%+v for %s:\n got %q\nwant %q", tc.spec, tc.target.Name, got, tc.want)
		}
	}
}

// TestWhatATargetTakesIsNotRefused tries what examples do not have.
func TestWhatATargetTakesIsNotRefused(t *testing.T) {
	var inputs []schemas.Value
	for _, text := range []string{
		"x", "7", "-7", "1.5", "1e3", "true", "0", "1", "2026-12-31", "2026-12-31T23:59:59+02:00", "2026-12-31 10:00", "ada@example.com", "+49 (30) 1",
		"0049301", "0000000001", "+1", "+1234567", "de", "DE", "mr", "AF", "Mr", "Mrs", "Ms", "M", "F", "-1.5|7", "OPENED", "",
	} {
		inputs = append(inputs, schemas.StringValue(text), schemas.ListValue([]schemas.Field{{Value: schemas.StringValue(text)}}))
		if isPlainNumber(text) {
			inputs = append(inputs, schemas.NumberValue(text))
		}
	}
	inputs = append(inputs, schemas.BoolValue(true), schemas.BoolValue(false))
	places := []schemas.Place{
		{Section: schemas.Attributes, Name: "x"},
		{Section: schemas.Properties, Name: "x"},
		{Section: schemas.Attributes, Name: "lastDevice"},
		{Section: schemas.Attributes, Name: "blacklistMoment"},
		{Section: schemas.Attributes, Name: "lastMailActivityStatus"},
		{Section: schemas.Subscriptions, Name: "x"},
		{Section: schemas.Segments, Name: "x"},
		{Section: schemas.DataCollection, Name: "date"},
		{Section: schemas.DataCollection, Name: "source"},
	}
	ignored := problem.NewReporter("", new([]problem.Problem))
	for _, place := range places {
		for _, of := range append(slices.Sorted(maps.Keys(conversions)), "") {
			none := NewTarget(place, nil)
			target := NewTarget(place, New(ignored, Spec{As: of}, &none))
			for _, as := range slices.Sorted(maps.Keys(conversions)) {
				var problems []problem.Problem
				c := New(problem.NewReporter("", &problems), Spec{As: as}, &target)
				for _, in := range inputs {
					v, rule := c.Convert(in)
					if rule == "" {
						_, rule = target.Check(v, schemas.Create)
					}
					if rule == "" && len(problems) > 0 {
						t.Errorf("%v as %s, typed %s: %s is taken, want no problem, got %v", fmt.Sprint(place), as, of, in.AppendJSON(nil), problems)
					}
				}
			}
		}
	}
}
