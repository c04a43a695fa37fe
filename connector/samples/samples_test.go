package samples

import (
	"strings"
	"testing"
)

const file = `# What becomes of customers.
tables:
  customers: {keys: [number], fields: {number: String, name: String}} # all of them
events:
  - topic: crm # the first
    value: {number: C1}

# These are the rows.
rows: # of all tables
  customers:
    C1: {number: C1, name: Ann}
    # gone: {number: gone}

# And the dead letters.
deadLetters:
  - "crm: value"
`

func result() Result {
	return Result{
		Rows:        map[string]map[string]map[string]string{"customers": {"C1": {"number": "C1", "name": "Ann"}}},
		DeadLetters: []string{"crm: value"},
	}
}

func TestCompareTellsEachDifference(t *testing.T) {
	s, err := Read([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Compare(result()); len(got) != 0 {
		t.Errorf("as expected: got %v, want no difference", got)
	}
	got := result()
	got.Rows["customers"]["C1"] = map[string]string{"number": "C1", "name": "Bob, B"}
	got.Rows["customers"]["C2"] = map[string]string{"number": "C2"}
	got.ByFile = map[string][]string{"customers": {"C2"}}
	got.DeadLetters = nil
	var b strings.Builder
	for _, d := range s.Compare(got) {
		b.WriteString(d.String() + "\n")
	}
	const want = `rows.customers.C1.name
  got  "Bob, B"
  want Ann
rows.customers.C2
  got  {number: C2}
  want nothing
byFile.customers
  got  [C2]
  want nothing
deadLetters
  got  nothing
  want ["crm: value"]
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}

func TestUpdateRewritesOnlyWhatDiffers(t *testing.T) {
	if got, err := Update([]byte(file), result()); err != nil || string(got) != file {
		t.Errorf("nothing differs: got %v\n%s\nwant the file as it is", err, got)
	}
	now := result()
	now.Rows["customers"]["12.50"] = map[string]string{"number": "12.50", "name": `yes, "é": {<\`}
	now.ByFile = map[string][]string{"customers": {"C1", "12.50"}}
	got, err := Update([]byte(file), now)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(file, `rows: # of all tables
  customers:
    C1: {number: C1, name: Ann}
    # gone: {number: gone}
`, `rows:
  customers:
    "12.50": {name: "yes, \"é\": {<\\", number: "12.50"}
    C1: {name: Ann, number: C1}
`, 1) + "byFile:\n  customers: [\"12.50\", C1]\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	now.Rows, now.DeadLetters = nil, nil
	if got, err = Update(got, now); err != nil || strings.Contains(string(got), "rows:") || strings.Contains(string(got), "deadLetters:") {
		t.Errorf("what is not expected any more: got %v\n%s\nwant neither rows nor deadLetters", err, got)
	}
}

func TestUpdateRefusesAFileItCannotKeep(t *testing.T) {
	text := `{tables: {t: {custom: true}}, events: [{topic: a}], deadLetters: ["a: value"]}`
	if got, err := Update([]byte(text), Result{}); err == nil {
		t.Errorf("a file in one line: got %s, want an error", got)
	}
}

func TestReadRefusesWhatSaysNothing(t *testing.T) {
	for text, want := range map[string]string{
		"tables: {}":                                "events: none",
		"events: [{topic: a}]\nrow: {}":             `[2:1] unknown key "row"; did you mean "rows"?`,
		"samples: []":                               `[1:1] unknown key "samples"; the keys here are tables, schemas, events, rows, byFile, deadLetters`,
		"events:\n  - topics: a":                    `[2:5] unknown key "topics"; did you mean "topic"?`,
		"tables:\n  t:\n    custom: true\n    x: 1": `[4:5] unknown key "x"; the keys here are custom, keys, fields, subscriptions, segments`,
		"events: [{topic: a}]\nrows: {t: {}}":       "rows.t: tables does not define",
		"events: [{topic: a}]\nbyFile: {t: [k]}":    "byFile.t: tables does not define",
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to name %q", text, err, want)
		}
	}
}

func FuzzScalar(f *testing.F) {
	for _, text := range []string{"", "C1", "no", "12", "a: b", "é\u2028\x00", "\"'#", "<&>", "-", "a#b", "2026-11-21T10:00:00Z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		now := Result{Rows: map[string]map[string]map[string]string{"customers": {text: {"name": text}}}, DeadLetters: []string{text}}
		if _, err := Update([]byte(file), now); err != nil { // which reads it again
			t.Errorf("%q: got %v", text, err)
		}
	})
}
