package setup

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/schemas"
)

// place is where all samples of the tests come from.
var place = Place{Kafka: config.Kafka{Brokers: []string{"kafka:9092"}}}

// guessed is what is written for records, each a key, a blank and a value; no
// value is a tombstone. It is read as the configuration it is.
func guessed(t testing.TB, at Place, records ...string) string {
	t.Helper()
	written, err := Write(at, sampled(t, "a.b", records...))
	if err != nil {
		t.Fatal(err)
	}
	accepted(t, written)
	accepted(t, chosen(written))
	return written
}

// sampled is a sample of records, each a key, a blank and a value; no value is a
// tombstone.
func sampled(t testing.TB, topic string, records ...string) *Sample {
	t.Helper()
	s := NewSample(topic, "json")
	for _, r := range records {
		key, text, _ := strings.Cut(r, " ")
		s.Add(Record{Key: []byte(key), Value: value(t, text)})
	}
	return s
}

func value(t testing.TB, text string) schemas.Value {
	t.Helper()
	if text == "" {
		return schemas.Value{}
	}
	v, err := schemas.NewJSON().Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// accepted reads a configuration with nothing in the environment but secrets. Where
// records can only go by files, their ETLs have still to be created.
func accepted(t testing.TB, text string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"api-key": "key", "feedsink.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := config.File.Config
	if strings.Contains(text, "\n    imports:\n") {
		load = config.File.Unfinished
	}
	cfg, err := load(config.File{Name: "feedsink.yaml", Data: []byte(text)}, func(name string) (string, bool) {
		return map[string]string{"FEEDSINK_SECRETS": dir}[name], name == "FEEDSINK_SECRETS"
	})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return cfg
}

func TestTypesAreGuessedFromAllValues(t *testing.T) {
	for values, want := range map[string]string{
		`true false`:                "as: boolean",
		`1 -5`:                      "as: integer",
		`1 3000000000`:              "as: number",
		`1 2.5`:                     "as: number",
		`1 "x"`:                     "to: f}",
		`"1990-04-01" "2026-11-21"`: "as: date}",
		`"1990-04-01" "2026-02-30"`: "to: f}",
		`"2026-11-21T10:00:00Z" "2026-11-21T10:00:00.5"`: "as: timestamp}",
		`"2026-11-21_10:00:00" "2026-11-21_10:00:01"`:    "as: timestamp, format: '%Y-%m-%d %H:%M:%S'}",
		`"21.11.2026" "01.02.2026"`:                      "as: date, format: '%d.%m.%Y'}",
		`"21.11.2026_10:00" "01.02.2026_11:30"`:          "as: timestamp, format: '%d.%m.%Y %H:%M'}",
		`"11/21/2026" "01/02/2026"`:                      "to: f}",
		`"a@example.com" "b@example.com"`:                "as: email",
		`"a@example.com" "nobody"`:                       "to: f}",
		strings.Repeat("null ", 2):                       "to: f}   # always null in the sample",
		`["a"] ["b","c"]`:                                "as: list",
		`["a"] "b"`:                                      "to: f}",
		`null "2026-11-21"`:                              "as: date}",
		`12345678901234567890 1`:                         "as: number",
		`"fr" "de"`:                                      "to: f}",
		`"Y" "N"`:                                        "as: boolean, true: ['Y'], false: ['N']}",
		`"no" "yes"`:                                     "as: boolean, true: ['yes'], false: ['no']}",
		`"Y" "Y"`:                                        "to: f}",
		`"N" "N"`:                                        "to: f}",
		`"Y" "n"`:                                        "as: boolean, true: ['Y'], false: ['n']}",
		`"Y" "maybe"`:                                    "to: f}",
		`"12,50" "-3"`:                                   "as: number, decimal: ','}",
		`"1,234" "0,5"`:                                  "as: number, decimal: ','}",
		`"1,234" "2,500"`:                                "to: f}",
		`"12" "13"`:                                      "to: f}",
		`"1.234,5" "0,5"`:                                "to: f}",
		`"007,5" "0,5"`:                                  "to: f}",
		`{"created":1795255200000} {"created":1795255200001}`:   "{from: f.created, to: fCreated, as: timestamp, format: epochMillis}",
		`{"created":1795255200} {"created":1795255201}`:         "{from: f.created, to: fCreated, as: timestamp, format: epochSeconds}",
		`{"at":1795255200} {"at":1795255201}`:                   "{from: f.at, to: fAt, as: timestamp, format: epochSeconds}",
		`{"memberSince":1764000000} {"memberSince":1764000001}`: "to: fMemberSince, as: timestamp, format: epochSeconds}",
		`{"arrive":1764000000000} {"arrive":1764000000001}`:     "to: fArrive, as: timestamp, format: epochMillis}",
		`{"valid_to":1764000000} {"valid_to":1764000001}`:       "to: fValidTo, as: timestamp, format: epochSeconds}",
		`{"weekend":1764000000} {"weekend":1764000001}`:         "to: fWeekend, as: integer}",
		`{"created":17} {"created":18}`:                         "{from: f.created, to: fCreated, as: integer}",
		`{"phone":"+33_1_23_45_67"} {"phone":"0033.1.23.45"}`:   "to: fPhone, as: phone}",
		`{"phone":"12"} {"phone":"13"}`:                         "to: fPhone}",
		`{"country":"fr"} {"country":"DE"}`:                     "to: fCountry, as: country}",
		`{"lang":"fr"} {"lang":"de"}`:                           "to: fLang, as: language}",
	} {
		var records []string
		for i, value := range strings.Fields(values) {
			records = append(records, strings.ReplaceAll(strings.Fields("a b")[i]+` {"id":"`+strings.Fields("a b")[i]+`","f":`+value+`}`, "_", " "))
		}
		at := place
		at.ProfileTable = "people"
		if got := guessed(t, at, records...); !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant %s", values, fieldsIn(got), want)
		}
	}
}

func TestCloudEventsAreRecognisedByTheirEnvelope(t *testing.T) {
	for name, c := range map[string]struct {
		others int
		data   string
		want   []string
	}{
		"canonical events": {0, `{"businessKey":"b","properties":{"total":3}}`, []string{"canonical record events.\n# They are the data of CloudEvents.", "envelope: cloudevents", `customTable: "b"`}},
		"anything else":    {0, `{"id":"A1"}`, []string{"envelope: cloudevents", "{from: id, to: businessKey}"}},
		"rows of Debezium": {0, `{"op":"c","after":{"id":1},"source":{}}`, []string{"envelope: cloudevents", "{from: after.id, to:"}},
		"a mixture":        {1, `{"id":"A1"}`, []string{"# DECIDE: 1 are the data of CloudEvents and 1 are none.", "    topics: [\"a.b\"]\n    # DECIDE: the table's name"}},
	} {
		s := NewSample("a.b", "json")
		s.Add(Record{Key: []byte("A1"), Value: value(t, c.data), Event: true})
		for range c.others {
			s.Add(Record{Key: []byte("A1"), Value: value(t, c.data)})
		}
		got, err := Write(place, s)
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, got)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got\n%s\nwant %s", name, got, want)
			}
		}
	}
}

// fieldsIn are the lines of the fields.
func fieldsIn(text string) string {
	_, after, _ := strings.Cut(text, "    fields:")
	before, _, _ := strings.Cut(after, "    routes:")
	return before
}

func TestTheKeyIsTheFieldThatNamesARow(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		want    string
	}{
		"the Kafka key":         {[]string{`7 {"no":1,"id":7}`, `8 {"no":2,"id":8}`}, "# id is the key, because its value is the Kafka key of every record"},
		"a name that says so":   {[]string{`x {"total":1,"orderId":"A"}`, `x {"total":2,"orderId":"B"}`}, "# DECIDE: orderId is the key, because no two records"},
		"whatever is unique":    {[]string{`x {"a":1,"b":"A"}`, `x {"a":1,"b":"B"}`}, "# DECIDE: b is the key, because no two records"},
		"not what is missing":   {[]string{`x {"id":"A","b":"A"}`, `x {"b":"B"}`}, "# DECIDE: b is the key, because no two records"},
		"not what is no name":   {[]string{`x {"id":1.5,"b":"A"}`, `x {"id":2.5,"b":"B"}`}, "# DECIDE: b is the key, because no two records"},
		"not an empty text":     {[]string{`x {"id":"","b":"A"}`, `x {"id":"1","b":"B"}`}, "# DECIDE: b is the key, because no two records"},
		"nothing tells":         {[]string{`x {"a":1}`, `x {"a":1}`}, "# DECIDE: a is the key, because nothing tells"},
		"deep inside":           {[]string{`K1 {"a":{"b":{"no":"K1"}}}`, `K2 {"a":{"b":{"no":"K2"}}}`}, "{from: a.b.no, to: businessKey}"},
		"one that is taken":     {[]string{`x {"businessKey":1,"id":"A"}`, `x {"businessKey":1,"id":"B"}`}, "{from: businessKey, to: businessKey2, as: integer}"},
		"a Kafka key of JSON":   {[]string{`{"id":7} {"id":7}`, `{"id":8} {"id":8}`}, "kafkaKey: json"},
		"a Kafka key of text":   {[]string{`{"id":7} {"id":7}`, `8 {"id":8}`}, "key: businessKey\n    # DECIDE: id"},
		"deletes have no value": {[]string{`7 {"id":7}`, `8`}, "# 1 more has no value: it deletes the row of its key."},
	} {
		if got := guessed(t, place, c.records...); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant %s", name, got, c.want)
		}
	}
}

func TestEachShapeIsRecognised(t *testing.T) {
	for name, c := range map[string]struct {
		records []string
		want    []string
	}{
		"profile events": {
			[]string{`- {"op":"upsert","key":{"number":"C1"},"attributes":{"a b":"x"},"subscriptions":{"news":true},"segments":{"vip":true}}`},
			[]string{"canonical profile events", "key: number   #", "columns: [number, S_vip, 'a b', 'subscriptions#news']"},
		},
		"record events":           {[]string{`- {"businessKey":"b","properties":{"total":3}}`}, []string{"canonical record events", `customTable: "b"`, "columns: [businessKey, total]"}},
		"Debezium's envelope":     {[]string{`{"id":1} {"op":"c","before":null,"after":{"id":1,"x":true},"source":{}}`}, []string{"envelope: debezium", "{from: x, to: x, as: boolean}"}},
		"the envelope and schema": {[]string{`- {"schema":{"type":"struct","fields":[]},"payload":{"op":"c","after":{"id":1},"source":{}}}`}, []string{"envelope: debezium"}},
		"flattened":               {[]string{`- {"id":1,"__op":"c","__deleted":"false"}`}, []string{"envelope: debezium", "{from: id, to: businessKey}"}},
		"a mixture":               {[]string{`- {"businessKey":"b","properties":{}}`, `- {"id":1}`}, []string{"records that know nothing of feedsink"}},
		"people by an address": {
			[]string{`- {"id":1,"mail":"a@example.com","lines":[{"sku":"a"}]}`},
			[]string{`profileTable: "b"`, `# - {from: 'lines[*].sku', to: linesSku, as: list}   # DECIDE: in a list of objects; [*] is all of them, [0] the first`},
		},
		"people by one of their addresses": {[]string{`- {"id":1,"mails":[{"to":"a@example.com"}]}`}, []string{`profileTable: "b"`, "as: list, of: email}"}},
		"what is written otherwise inside a list": {
			[]string{`- {"id":1,"mail":"a@example.com","lines":[{"gift":"Y"},{"gift":"N"}]}`},
			[]string{`as: list, of: boolean, true: ['Y'], false: ['N']}`},
		},
		"a list that may be empty": {[]string{`a {"id":"a","lines":[]}`, `b {"id":"b","lines":[{"sku":"a"}]}`}, []string{"{from: id, to: businessKey}\n      # - {from: 'lines[0].sku'"}},
		"things with parts": {
			[]string{`- {"id":1,"lines":[{"sku":"a","at":{"x":1}},{"qty":2,"tags":["x"]}]}`},
			[]string{`# - {from: 'lines[0].sku', to: linesSku}`, `# - {from: 'lines[0].qty', to: linesQty}`, `# - {from: 'lines[0].at.x', to: linesAtX}`},
		},
	} {
		got := guessed(t, place, c.records...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got\n%s\nwant %s", name, got, want)
			}
		}
	}
}

func TestTheWayInIsWrittenDownAndNoSecret(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := place
	at.Kafka.TLS = config.TLS{Enabled: true}
	at.Kafka.SASL = config.SASL{Mechanism: "SCRAM-SHA-512", Username: "a ${HOME} user", PasswordFile: password}
	at.Registry = config.SchemaRegistry{URL: config.NewAddress("https://registry:8081"), Username: "reader", PasswordFile: password}
	cfg := accepted(t, guessed(t, at, `a {"id":"a"}`))
	if !cfg.Kafka.TLS.Enabled || !reflect.DeepEqual(cfg.Kafka.SASL, at.Kafka.SASL) {
		t.Errorf("kafka: got %+v, want what was given", cfg.Kafka)
	}
	if r := cfg.SchemaRegistry; r.URL.Reveal() != at.Registry.URL.Reveal() || r.Username != "reader" || r.PasswordFile != password {
		t.Errorf("schemaRegistry: got %+v, want what was given", r)
	}
}

func TestAllRecordsThatAreAskedForAreLookedAt(t *testing.T) {
	records := slices.Repeat([]string{`1 {"id":1}`}, 2000)
	got, _ := looked(t, append([]string{"crm"}, append(records, `2 {"id":2,"tier":"gold"}`)...))
	holds(t, "the newest record", got, "{from: tier, to: tier}")
}

func TestWhatTheServiceComputesIsNoField(t *testing.T) {
	const note = "   # computed by the service; only a mapping with op: create and imports.create may fill it\n"
	for name, c := range map[string]struct {
		records []string
		want    []string
	}{
		"attributes": {
			[]string{`a {"id":"a","mail":"a@example.com","lastDevice":"x","blacklistMoment":"2026-01-01T00:00:00Z"}`},
			[]string{"      # - {from: lastDevice, to: lastDevice}" + note, "      # - {from: blacklistMoment, to: blacklistMoment}" + note, "#   columns: [id, mail]"},
		},
		"columns of files": {
			[]string{`a {"op":"u","id":"a","mail":"a@example.com","lastDevice":"x"}`, `b {"op":"patch","id":"b","lastDevice":"x"}`},
			[]string{"\n      columns: [id, mail]"},
		},
		"attributes of events": {
			[]string{`- {"op":"patch","key":{"no":"C1"},"attributes":{"lastDevice":"x","age":1}}`},
			[]string{"#   columns: ['no', age]"},
		},
		"on offer": {
			[]string{`a {"id":"a","mail":"a@example.com","data":[{"lastDevice":"x"}]}`},
			[]string{"      # - {from: 'data[*].lastDevice', to: lastDevice}" + note},
		},
		"the key":       {[]string{`a {"lastDevice":"a","mail":"a@example.com"}`}, []string{"{from: lastDevice, to: lastDevice2}"}},
		"of no profile": {[]string{`a {"id":"a","lastDevice":"x"}`}, []string{"      - {from: lastDevice, to: lastDevice}", "columns: [businessKey, lastDevice]"}},
	} {
		got := guessed(t, place, c.records...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got\n%s\nwant %s", name, got, want)
			}
		}
	}
}

func TestNothingIsGuessedFromNothing(t *testing.T) {
	for name, values := range map[string][]string{
		"no record": nil, "a list": {`[1,2]`, `[{"id":1}]`}, "a text": {`"a"`}, "a number": {`1`}, "null": {`null`},
		"an empty object": {`{}`}, "objects alone": {`{"a":{"b":{}}}`}, "no name": {`{"a":1.5}`}, "too deep": {`{"a":{"b":{"c":{"d":{"e":1}}}}}`},
	} {
		s := NewSample("a.b", "json")
		for _, text := range values {
			s.Add(Record{Value: value(t, text)})
		}
		if got, err := Write(place, s); !errors.Is(err, ErrNothing) {
			t.Errorf("%s: got %v\n%s\nwant ErrNothing", name, err, got)
		}
	}
}

// Names of members are somebody else's: whatever they are, what is written is
// a configuration that reads those members, and nothing in it is a variable.
func FuzzWhateverIsGuessedCanWork(f *testing.F) {
	for _, text := range []string{
		`{"id":1,"mail":"a@example.com"}`, `{"a\nb: [":"x","${HOME}":"y","'":1,"\"":2,"#":3}`, `{"true":1,"null":2,"-":3,"":4,"a.b":5,"[0]":6}`,
		`{"op":"upsert","key":{"${X}\n":"C1"},"attributes":{"a\nb":1}}`, `{"businessKey":"b","properties":{"]":1,"\u2028":2}}`,
		`{"op":"c","after":{"id":1,"timestamp":2,"__x":3},"source":{}}`, `{"timestamp":1,"headers":{"a":1},"topic":"x"}`, `{"é":1,"e":2,"E":3,"日本":4}`,
		`{"a":[{"b":[{"c":1}]}],"l":[1,"x",null],"m":[[1]]}`, `{"lastDevice":"x","data":[{"lastUserAgent":1}]}`, `[1]`, `"x"`,
	} {
		f.Add("key", text, `{"id":2,"type":"b.created","deleted":true}`)
		f.Add("key", `{"id":1,"type":"a.created","mail":"a@example.com","c":1,"d":2,"e":{"tier":"x"}}`, text)
	}
	for _, texts := range [][2]string{
		{`{"id":"a","type":"x.created","a":1,"b":2,"c":{"mail":"a@b.c"}}`, `{"id":"b","type":"x.paid","a":3}`},
		{`{"id":"a","op":"c","mail":"a@b.c","x\ny":2,"tags":["a b","a-b"]}`, `{"id":"a","op":"d","tags":["a b","a-b"]}`},
		{`{"id":"a","mail":"a@b.c","in":1,"b":2,"consent":{"sms":"Y","at":"2026-01-01"}}`, `{"id":"b","consent":{"sms":"n","at":"2026-01-02"}}`},
	} {
		f.Add("a", texts[0], texts[1])
	}
	decoder := schemas.NewJSON()
	f.Fuzz(func(t *testing.T, key, first, second string) {
		s := NewSample("a.b", "json")
		for _, text := range []string{first, second, first} {
			value, err := decoder.Decode([]byte(text))
			if err != nil || len(text) > 1<<12 {
				return
			}
			s.Add(Record{Key: []byte(key), Value: value})
			decoder = schemas.NewJSON()
		}
		written, err := Write(place, s)
		if errors.Is(err, ErrNothing) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, written)
		accepted(t, chosen(written))
	})
}

// chosen takes up all that is on offer.
func chosen(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, "DECIDE: in a list of objects") {
			lines[i] = strings.Replace(line, "# - ", "- ", 1)
		}
	}
	return strings.Join(lines, "\n")
}
