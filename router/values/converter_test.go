package values

import (
	"net/mail"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

const ruleCommaNumber = "must be a number: digits with an optional leading - and a decimal comma" + ruleThousands

// A row for each rule of the interface's value formats and standard formats,
// named after it; want is the JSON of the value sent, or the rule that refuses it.
func TestConversionsKeepTheFormats(t *testing.T) {
	for _, tc := range []struct{ rule, as, in, want string }{
		{"string: text", "string", `"x"`, `"x"`},
		{"string: empty text is text", "string", `""`, `""`},
		{"string: of a number", "string", `12.50`, `"12.50"`},
		{"string: of a boolean", "string", `true`, `"true"`},
		{"string: not a list", "string", `["x"]`, ruleText},
		{"string: 255 characters", "string", `"` + strings.Repeat("é", 255) + `"`, `"` + strings.Repeat("é", 255) + `"`},
		{"string: not 256 characters", "string", `"` + strings.Repeat("é", 256) + `"`, ruleLength(255)},

		{"integer: lowest", "integer", `-2147483648`, `-2147483648`},
		{"integer: highest", "integer", `2147483647`, `2147483647`},
		{"integer: above", "integer", `2147483648`, ruleInteger},
		{"integer: below", "integer", `-2147483649`, ruleInteger},
		{"integer: of text", "integer", `"12"`, `12`},
		{"integer: with a point", "integer", `12.0`, `12`},
		{"integer: with an exponent", "integer", `1.2e1`, `12`},
		{"integer: minus zero", "integer", `-0`, `0`},
		{"integer: no fraction", "integer", `12.5`, ruleInteger},
		{"integer: no plus", "integer", `"+12"`, ruleInteger},
		{"integer: not empty", "integer", `""`, ruleInteger},
		{"integer: not a boolean", "integer", `true`, ruleInteger},

		{"number: decimal", "number", `12.5`, `12.5`},
		{"number: long", "number", `12345678901234567890.123456789`, `12345678901234567890.123456789`},
		{"number: negative starts with -", "number", `-0.50`, `-0.50`},
		{"number: no exponent", "number", `1.5e3`, `1500`},
		{"number: no negative exponent", "number", `15E-1`, `1.5`},
		{"number: of text", "number", `"-7.25"`, `-7.25`},
		{"number: positive without +", "number", `"+7"`, ruleNumber},
		{"number: separator is a point", "number", `"7,25"`, ruleNumber},
		{"number: digits after the point", "number", `"1."`, ruleNumber},
		{"number: digits before the point", "number", `".5"`, ruleNumber},
		{"number: no leading zeros", "number", `"007"`, ruleNumber},
		{"number: not NaN", "number", `"NaN"`, ruleNumber},
		{"number: bounded", "number", `1e9999`, ruleNumber},

		{"boolean: true", "boolean", `true`, `true`},
		{"boolean: false", "boolean", `"false"`, `false`},
		{"boolean: of 1", "boolean", `1`, `true`},
		{"boolean: of 0", "boolean", `0`, `false`},
		{"boolean: not 2", "boolean", `2`, ruleBoolean},
		{"boolean: no other word", "boolean", `"yes"`, ruleBoolean},

		{"date: yyyy-MM-dd", "date", `"2024-02-29"`, `"2024-02-29"`},
		{"date: of a timestamp", "date", `"2026-11-21T10:00:00Z"`, `"2026-11-21"`},
		{"date: of the calendar", "date", `"2023-02-29"`, ruleDate},
		{"date: no other order", "date", `"21.11.2026"`, ruleDate},
		{"date: not a number", "date", `20261121`, ruleDate},

		{"timestamp: yyyy-MM-ddThh:mm:ss", "timestamp", `"2026-11-21T10:00:00"`, `"2026-11-21T10:00:00"`},
		{"timestamp: with the UTC designator", "timestamp", `"2026-11-21T10:00:00Z"`, `"2026-11-21T10:00:00Z"`},
		{"timestamp: with an offset", "timestamp", `"2026-11-21T10:00:00+01:00"`, `"2026-11-21T10:00:00+01:00"`},
		{"timestamp: no fraction, UTC", "timestamp", `"2026-11-21T10:00:00.123456Z"`, `"2026-11-21T10:00:00Z"`},
		{"timestamp: no fraction", "timestamp", `"2026-11-21T10:00:00.123"`, `"2026-11-21T10:00:00"`},
		{"timestamp: no fraction behind a comma", "timestamp", `"2026-11-21T10:00:00,5Z"`, `"2026-11-21T10:00:00Z"`},
		{"timestamp: an hour of one digit", "timestamp", `"2026-11-21T1:00:00+01:00"`, ruleTimestamp},
		{"timestamp: an offset of a day", "timestamp", `"2026-11-21T10:00:00+24:00"`, ruleTimestamp},
		{"timestamp: an offset of nearly a day", "timestamp", `"2026-11-21T10:00:00-23:59"`, `"2026-11-21T10:00:00-23:59"`},
		{"date: of no timestamp", "date", `"2026-11-21T1:00:00+01:00"`, ruleDate},
		{"timestamp: without seconds", "timestamp", `"2026-11-21T10:15"`, `"2026-11-21T10:15:00"`},
		{"timestamp: without seconds, UTC", "timestamp", `"2026-11-21T10:15Z"`, `"2026-11-21T10:15:00Z"`},
		{"timestamp: without seconds, with an offset", "timestamp", `"2026-11-21T10:15+01:00"`, `"2026-11-21T10:15:00+01:00"`},
		{"timestamp: of SQL", "timestamp", `"2026-11-21 10:15:00.25+01"`, `"2026-11-21T10:15:00+01:00"`},
		{"timestamp: of SQL, without seconds", "timestamp", `"2026-11-21 10:15"`, `"2026-11-21T10:15:00"`},
		{"timestamp: an offset without a colon", "timestamp", `"2026-11-21T10:15:00-0530"`, `"2026-11-21T10:15:00-05:30"`},
		{"timestamp: small letters", "timestamp", `"2026-11-21t10:15:00z"`, `"2026-11-21T10:15:00Z"`},
		{"date: of a timestamp without seconds", "date", `"2026-11-21 10:15"`, `"2026-11-21"`},
		{"timestamp: no fraction of a minute", "timestamp", `"2026-11-21T10:15.5"`, ruleTimestamp},
		{"timestamp: no hour alone", "timestamp", `"2026-11-21T10"`, ruleTimestamp},
		{"timestamp: no sign alone", "timestamp", `"2026-11-21T10:15+"`, ruleTimestamp},
		{"timestamp: no day of one digit", "timestamp", `"2026-11-1T10:15:00Z"`, ruleTimestamp},
		{"timestamp: no comma between", "timestamp", `"2026-11-21,10:15:00"`, ruleTimestamp},
		{"timestamp: no fraction without digits", "timestamp", `"2026-11-21T10:00:00.Z"`, ruleTimestamp},
		{"timestamp: of the clock", "timestamp", `"2026-11-21T25:00:00"`, ruleTimestamp},
		{"timestamp: not a date", "timestamp", `"2026-11-21"`, ruleTimestamp},
		{"timestamp: not a number", "timestamp", `1795255200`, ruleTimestamp},

		{"multi-value: array of values", "list", `["a",1,true]`, `["a",1,true]`},
		{"multi-value: of one", "list", `"a"`, `["a"]`},
		{"multi-value: of none", "list", `[]`, `[]`},
		{"multi-value: each a number without exponent", "list", `[1e2]`, `[100]`},
		{"multi-value: no null", "list", `[null]`, ruleElements},
		{"multi-value: no object", "list", `{}`, ruleElements},
		{"multi-value: no list", "list", `[["a"]]`, ruleElements},
		{"multi-value: each at most 255 characters", "list", `["` + strings.Repeat("x", 256) + `"]`, "each element: " + ruleLength(255)},

		{"e-mail address", "email", `"a.b+c@example.com"`, `"a.b+c@example.com"`},
		{"e-mail address: plain", "email", `"a_b-c.d@mail.example.com"`, `"a_b-c.d@mail.example.com"`},
		{"e-mail address: other scripts", "email", `"änne@bücher.example"`, `"änne@bücher.example"`},
		{"e-mail address: no display name", "email", `"A <a@example.com>"`, ruleEmail},
		{"e-mail address: no address literal", "email", `"a@[10.0.0.1]"`, ruleEmail},
		{"e-mail address: an @", "email", `"example.com"`, ruleEmail},
		{"e-mail address: one @", "email", `"a@b@example.com"`, ruleEmail},
		{"e-mail address: a domain", "email", `"a@"`, ruleEmail},
		{"e-mail address: no empty label", "email", `"a@example..com"`, ruleEmail},
		{"e-mail address: no dot at the end", "email", `"a@example.com."`, ruleEmail},
		{"e-mail address: length", "email", `"` + strings.Repeat("a", 250) + `@example.com"`, ruleLength(255)},

		{"phone number: its characters", "phone", `"+33 (0)1.23-45/67"`, `"+33 (0)1.23-45/67"`},
		{"phone number: prefix 00", "phone", `"0033123456"`, `"0033123456"`},
		{"phone number: prefix in brackets", "phone", `"(+33) 123456"`, `"(+33) 123456"`},
		{"phone number: includes the prefix", "phone", `"0123456789"`, rulePhone},
		{"phone number: no other characters", "phone", `"+33 12x"`, rulePhone},
		{"phone number: only digits 0-9", "phone", `"+33 12٣4"`, rulePhone},
		{"phone number: digits", "phone", `"+"`, rulePhone},
		{"phone number: text", "phone", `33123456`, rulePhone},

		{"mother language: ISO 639-1", "language", `"fr"`, `"fr"`},
		{"mother language: small letters", "language", `"EN"`, `"en"`},
		{"mother language: replaced code", "language", `"iw"`, `"he"`},
		{"mother language: two characters", "language", `"fra"`, ruleLanguage},
		{"mother language: of the standard", "language", `"xx"`, ruleLanguage},
		{"mother language: withdrawn", "language", `"bh"`, ruleLanguage},
		{"mother language: not empty", "language", `""`, ruleLanguage},

		{"country: ISO 3166-1 alpha-2", "country", `"FR"`, `"FR"`},
		{"country: capitals", "country", `"de"`, `"DE"`},
		{"country: two characters", "country", `"FRA"`, ruleCountry},
		{"country: reserved", "country", `"UK"`, ruleCountry},
		{"country: union", "country", `"EU"`, ruleCountry},
		{"country: withdrawn", "country", `"YU"`, ruleCountry},
		{"country: user assigned", "country", `"ZZ"`, ruleCountry},
		{"country: unassigned", "country", `"XX"`, ruleCountry},

		{"sex: M", "sex", `"M"`, `"M"`},
		{"sex: F", "sex", `"F"`, `"F"`},
		{"sex: nothing else", "sex", `"m"`, ruleSex},

		{"person title: Mr", "title", `"Mr"`, `"Mr"`},
		{"person title: Mrs", "title", `"Mrs"`, `"Mrs"`},
		{"person title: Ms", "title", `"Ms"`, `"Ms"`},
		{"person title: nothing else", "title", `"Dr"`, ruleTitle},

		{"UTM coordinates: X|Y", "utm", `"48.8566|2.3522"`, `"48.8566|2.3522"`},
		{"UTM coordinates: bounds of WGS 84", "utm", `"-90|-180.0"`, `"-90|-180.0"`},
		{"UTM coordinates: separator is a point", "utm", `"48,8|2,3"`, ruleUTM},
		{"UTM coordinates: X is a latitude", "utm", `"90.1|0"`, ruleUTM},
		{"UTM coordinates: Y is a longitude", "utm", `"0|180.5"`, ruleUTM},
		{"UTM coordinates: both", "utm", `"48.8"`, ruleUTM},
		{"UTM coordinates: no exponent", "utm", `"4e1|2"`, ruleUTM},
	} {
		v, err := schemas.NewJSON().Decode([]byte(tc.in))
		if err != nil {
			t.Fatal(err)
		}
		out, got := conversions[tc.as](v, &Converter{})
		if got == "" {
			got = string(out.AppendJSON(nil))
		}
		if got != tc.want {
			t.Errorf("%s: %s of %s: got %s, want %s", tc.rule, tc.as, tc.in, got, tc.want)
		}
	}
}

// What the configuration says of how the source writes a value comes before what is
// usual, and nothing else of a value is taken for it.
func TestTheSourcesOwnWordsAndSeparatorsAreRead(t *testing.T) {
	yes := Spec{As: "boolean", True: []string{"Y", "yes", ""}, False: []string{"N", "2"}}
	inverted := Spec{As: "boolean", True: []string{"0", "false"}, False: []string{"1", "true"}}
	comma := Spec{As: "number", Decimal: ","}
	for _, tc := range []struct {
		spec     Spec
		in, want string
	}{
		{yes, `"Y"`, `true`},
		{yes, `"yes"`, `true`},
		{yes, `""`, `true`},
		{yes, `"N"`, `false`},
		{yes, `2`, `false`},
		{yes, `"2"`, `false`},
		{yes, `true`, `true`},
		{yes, `"0"`, `false`},
		{yes, `"y"`, ruleWords},
		{yes, `["Y"]`, ruleBoolean},
		{inverted, `"0"`, `true`},
		{inverted, `1`, `false`},
		{inverted, `true`, `false`},
		{Spec{As: "boolean", True: []string{"Y"}}, `"false"`, `false`},
		{Spec{As: "list", Of: "boolean", True: []string{"Y"}, False: []string{"N"}}, `["N",true,"Y"]`, `[false,true,true]`},

		{comma, `"12,50"`, `12.50`},
		{comma, `"-0,5"`, `-0.5`},
		{comma, `"12"`, `12`},
		{comma, `12.5`, `12.5`},
		{comma, `"1,5e2"`, `150`},
		{comma, `"1.234,5"`, ruleCommaNumber},
		{comma, `"1.234"`, ruleCommaNumber},
		{comma, `"1 234,5"`, ruleCommaNumber},
		{comma, `"1,234,5"`, ruleCommaNumber},
		{comma, `",5"`, ruleCommaNumber},
		{Spec{As: "number", Decimal: ",", Scale: -2}, `"1250,5"`, `12.505`},
		{Spec{As: "number", Decimal: "."}, `"12.5"`, `12.5`},
		{Spec{As: "number", Decimal: "."}, `"12,5"`, ruleNumber},
		{Spec{As: "integer", Decimal: ",", Scale: 2}, `"12,5"`, `1250`},
		{Spec{As: "integer", Decimal: ","}, `"12,0"`, `12`},
		{Spec{As: "integer", Decimal: ","}, `"12,5"`, ruleInteger + ruleThousands},
		{Spec{As: "list", Of: "number", Decimal: ","}, `["1,5"]`, `[1.5]`},
	} {
		v, err := schemas.NewJSON().Decode([]byte(tc.in))
		if err != nil {
			t.Fatal(err)
		}
		var problems []problem.Problem
		target := NewTarget(schemas.Place{Section: schemas.Attributes, Name: "x"}, nil)
		c := New(problem.NewReporter("fields[0]", &problems), tc.spec, &target)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		out, got := c.Convert(v)
		if got == "" {
			got = string(out.AppendJSON(nil))
		}
		if got != tc.want {
			t.Errorf("%+v of %s: got %s, want %s", tc.spec, tc.in, got, tc.want)
		}
		if v, rule := target.Constant(schemas.StringValue("Y"), c); rule == "" && tc.spec.As == "boolean" {
			t.Errorf("%+v: the constant Y is %s: a constant is written as the table takes it", tc.spec, v.AppendJSON(nil))
		}
	}
}

// The registers in force: 183 languages (ISO 639-1) and 249 countries (ISO
// 3166-1 alpha-2).
const (
	iso639 = "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en " +
		"eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki " +
		"kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv " +
		"ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk " +
		"tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
	iso3166 = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ " +
		"CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD " +
		"GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM " +
		"KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA " +
		"NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ " +
		"SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU " +
		"WF WS YE YT ZA ZM ZW"
)

func TestCodesAreExactlyThoseInForce(t *testing.T) {
	inForce := map[string]bool{}
	for code := range strings.FieldsSeq(iso639 + " " + iso3166) {
		inForce[code] = true
	}
	if got, want := len(inForce), 183+249; got != want {
		t.Fatalf("codes listed: got %d, want %d", got, want)
	}
	for a := 'a'; a <= 'z'; a++ {
		for b := 'a'; b <= 'z'; b++ {
			code := string([]rune{a, b})
			if written, ok := languageCode(code); ok && written == code != inForce[code] || !ok && inForce[code] {
				t.Errorf("language %s: got %q (%v), want it known: %v", code, written, ok, inForce[code])
			}
			code = strings.ToUpper(code)
			if written, ok := countryCode(code); ok != inForce[code] || ok && written != code {
				t.Errorf("country %s: got %q (%v), want it known: %v", code, written, ok, inForce[code])
			}
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

// What is taken without the full grammar must be an address by it too.
func FuzzPlainAddress(f *testing.F) {
	for _, seed := range []string{"a@b", "a.b@c.d", ".a@b", "a@b@c", "-@-", "a@.b", "a..b@c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !isPlainAddress(s) {
			return
		}
		if a, err := mail.ParseAddress(s); err != nil || a.Address != s || a.Name != "" {
			t.Fatalf("%q: got a plain address, the grammar says %v (%v)", s, a, err)
		}
	})
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
		if strings.ContainsAny(out, "eE+ ") || len(out) > MaxText+1 {
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
