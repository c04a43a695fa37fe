package router

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// A row for each rule of the value formats; want is the JSON of the value sent,
// or the rule that refuses it.
func TestConversionsKeepTheFormats(t *testing.T) {
	for _, tc := range []struct{ as, in, want string }{
		{"string", `"x"`, `"x"`},
		{"string", `""`, `""`},
		{"string", `12.50`, `"12.50"`},
		{"string", `true`, `"true"`},
		{"string", `["x"]`, ruleText},
		{"string", `"` + strings.Repeat("é", 255) + `"`, `"` + strings.Repeat("é", 255) + `"`},
		{"string", `"` + strings.Repeat("é", 256) + `"`, ruleLength},

		{"integer", `-2147483648`, `-2147483648`},
		{"integer", `2147483647`, `2147483647`},
		{"integer", `2147483648`, ruleInteger},
		{"integer", `-2147483649`, ruleInteger},
		{"integer", `"12"`, `12`},
		{"integer", `12.0`, `12`},
		{"integer", `1.2e1`, `12`},
		{"integer", `12.5`, ruleInteger},
		{"integer", `"+12"`, ruleInteger},
		{"integer", `""`, ruleInteger},
		{"integer", `true`, ruleInteger},

		{"number", `12.5`, `12.5`},
		{"number", `-0.50`, `-0.50`},
		{"number", `1.5e3`, `1500`},
		{"number", `15E-1`, `1.5`},
		{"number", `"-7.25"`, `-7.25`},
		{"number", `"+7"`, ruleNumber},
		{"number", `"7,25"`, ruleNumber},
		{"number", `"1."`, ruleNumber},
		{"number", `".5"`, ruleNumber},
		{"number", `"007"`, ruleNumber},
		{"number", `"NaN"`, ruleNumber},
		{"number", `1e9999`, ruleNumber},
		{"number", `12345678901234567890.123456789`, `12345678901234567890.123456789`},

		{"boolean", `true`, `true`},
		{"boolean", `"false"`, `false`},
		{"boolean", `1`, `true`},
		{"boolean", `0`, `false`},
		{"boolean", `2`, ruleBoolean},
		{"boolean", `"yes"`, ruleBoolean},

		{"date", `"2024-02-29"`, `"2024-02-29"`},
		{"date", `"2026-11-21T10:00:00Z"`, `"2026-11-21"`},
		{"date", `"2023-02-29"`, ruleDate},
		{"date", `"21.11.2026"`, ruleDate},
		{"date", `20261121`, ruleDate},

		{"timestamp", `"2026-11-21T10:00:00"`, `"2026-11-21T10:00:00"`},
		{"timestamp", `"2026-11-21T10:00:00Z"`, `"2026-11-21T10:00:00Z"`},
		{"timestamp", `"2026-11-21T10:00:00+01:00"`, `"2026-11-21T10:00:00+01:00"`},
		{"timestamp", `"2026-11-21T10:00:00.123456Z"`, `"2026-11-21T10:00:00Z"`},
		{"timestamp", `"2026-11-21T10:00:00.123"`, `"2026-11-21T10:00:00"`},
		{"timestamp", `"2026-11-21T10:00:00.Z"`, ruleTimestamp},
		{"timestamp", `"2026-11-21T25:00:00"`, ruleTimestamp},
		{"timestamp", `"2026-11-21"`, ruleTimestamp},
		{"timestamp", `1795255200`, ruleTimestamp},

		{"list", `["a",1,true]`, `["a",1,true]`},
		{"list", `"a"`, `["a"]`},
		{"list", `[]`, `[]`},
		{"list", `[1e2]`, `[100]`},
		{"list", `[null]`, ruleElements},
		{"list", `{}`, ruleElements},
		{"list", `["` + strings.Repeat("x", 256) + `"]`, "each element: " + ruleLength},

		{"email", `"a.b+c@example.com"`, `"a.b+c@example.com"`},
		{"email", `"A <a@example.com>"`, ruleEmail},
		{"email", `"a@[10.0.0.1]"`, ruleEmail},
		{"email", `"example.com"`, ruleEmail},
		{"email", `"a@"`, ruleEmail},
		{"email", `"` + strings.Repeat("a", 250) + `@example.com"`, ruleLength},

		{"phone", `"+33 (0)1.23-45/67"`, `"+33 (0)1.23-45/67"`},
		{"phone", `"0033123456"`, `"0033123456"`},
		{"phone", `"(+33) 123456"`, `"(+33) 123456"`},
		{"phone", `"0123456789"`, rulePhone},
		{"phone", `"+33 12x"`, rulePhone},
		{"phone", `"+"`, rulePhone},
		{"phone", `33123456`, rulePhone},

		{"language", `"fr"`, `"fr"`},
		{"language", `"EN"`, `"en"`},
		{"language", `"fra"`, ruleLanguage},
		{"language", `"xx"`, ruleLanguage},
		{"language", `""`, ruleLanguage},

		{"country", `"FR"`, `"FR"`},
		{"country", `"de"`, `"DE"`},
		{"country", `"FRA"`, ruleCountry},
		{"country", `"UK"`, ruleCountry},
		{"country", `"EU"`, ruleCountry},
		{"country", `"ZZ"`, ruleCountry},
		{"country", `"XX"`, ruleCountry},

		{"sex", `"M"`, `"M"`},
		{"sex", `"F"`, `"F"`},
		{"sex", `"m"`, ruleSex},

		{"title", `"Mr"`, `"Mr"`},
		{"title", `"Mrs"`, `"Mrs"`},
		{"title", `"Ms"`, `"Ms"`},
		{"title", `"Dr"`, ruleTitle},

		{"utm", `"48.8566|2.3522"`, `"48.8566|2.3522"`},
		{"utm", `"-90|-180.0"`, `"-90|-180.0"`},
		{"utm", `"48,8|2,3"`, ruleUTM},
		{"utm", `"90.1|0"`, ruleUTM},
		{"utm", `"0|180.5"`, ruleUTM},
		{"utm", `"48.8"`, ruleUTM},
		{"utm", `"4e1|2"`, ruleUTM},
	} {
		v, err := schemas.NewJSON().Decode([]byte(tc.in))
		if err != nil {
			t.Fatal(err)
		}
		out, got := conversions[tc.as](v, 0)
		if got == "" {
			got = string(out.AppendJSON(nil))
		}
		if got != tc.want {
			t.Errorf("%s of %s: got %s, want %s", tc.as, tc.in, got, tc.want)
		}
	}
}

func TestDecimalMovesThePointExactly(t *testing.T) {
	for _, tc := range []struct {
		in    string
		scale int
		want  string
	}{
		{"1250", -2, "12.5"},
		{"5", -2, "0.05"},
		{"-5", -2, "-0.05"},
		{"0", -2, "0"},
		{"-0", 3, "0"},
		{"12.5", 2, "1250"},
		{"12.505", 2, "1250.5"},
		{"0.05", 1, "0.5"},
		{"1.5e3", -3, "1.5"},
		{"1e2", -2, "1"},
		{"100", -2, "1"},
		{"123456789012345678901", -20, "1.23456789012345678901"},
		{"7", 3, "7000"},
	} {
		if got, ok := decimal(tc.in, tc.scale); !ok || got != tc.want {
			t.Errorf("%s × 10^%d: got %q (%v), want %q", tc.in, tc.scale, got, ok, tc.want)
		}
	}
	for _, in := range []string{"", "-", "1e", "1e1.5", "1_0", "0x1", "1 ", "--1", "1e401", strings.Repeat("1", 256)} {
		if got, ok := decimal(in, 0); ok {
			t.Errorf("%q: got %q, want a refusal", in, got)
		}
	}
}

func TestEveryMailActivityStatusIsKnown(t *testing.T) {
	if got, want := len(mailActivityStatuses), 18; got != want {
		t.Errorf("statuses: got %d, want %d", got, want)
	}
	if got, want := len(recencyMoments)+len(recencyTexts), 11; got != want {
		t.Errorf("technical attributes: got %d, want %d", got, want)
	}
}

// FuzzDecimal: whatever is accepted is a plain number, and moving the point
// there and back changes nothing.
func FuzzDecimal(f *testing.F) {
	f.Add("12.50", -2)
	f.Add("-1.5E+3", 0)
	f.Add("00", 7)
	f.Fuzz(func(t *testing.T, in string, scale int) {
		if scale < -maxScale || scale > maxScale {
			return
		}
		out, ok := decimal(in, scale)
		if !ok {
			return
		}
		if strings.ContainsAny(out, "eE+ ") || len(out) > maxText+1 {
			t.Fatalf("%q × 10^%d: got %q, want a plain number", in, scale, out)
		}
		moved, ok := decimal(out, 1)
		if !ok {
			return // longer than a number may be
		}
		back, ok := decimal(moved, -1)
		again, _ := decimal(back, 0)
		if !ok || again != back {
			t.Fatalf("%q moved there and back: got %q, %q", out, back, again)
		}
	})
}
