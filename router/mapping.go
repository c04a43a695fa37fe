package router

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Mapping is one block of the configuration file under `mappings`: topics to
// one table, with fields and routes. Defaults are filled in by what loads
// the file.
type Mapping struct {
	Name     string   `yaml:"name"`
	Topics   []string `yaml:"topics"`
	Format   string   `yaml:"format"`   // json | avro | json-schema | protobuf
	Envelope string   `yaml:"envelope"` // none | debezium | cloudevents
	// KafkaKey is how a record's key is read: text | json | avro | json-schema |
	// protobuf; by default text, and json under the envelope debezium.
	KafkaKey string `yaml:"kafkaKey"`
	// UnavailableValue is Debezium's unavailable.value.placeholder, where that
	// was changed.
	UnavailableValue string `yaml:"unavailableValue"`
	ProfileTable     string `yaml:"profileTable"` // exactly one of the two tables
	CustomTable      string `yaml:"customTable"`
	Key              string `yaml:"key"`       // unique-key attribute; businessKey for custom tables
	ProfileID        string `yaml:"profileId"` // path of the service's profile id
	// Op is what a mapped record does, tombstones apart: upsert (the default),
	// patch, create or delete, or an expression that comes to one of these words. Where it
	// names nil for a result, a record for which it comes to nil is a dead letter.
	Op     string  `yaml:"op"`
	Fields []Field `yaml:"fields"` // none: the value is a canonical event
	// Types says what is known of the table's attributes or properties: events
	// are checked against it, in both lanes.
	Types []Type `yaml:"types"`
	// When is an expression of the expr language: records for which it is not true
	// are not the mapping's, as if its topics did not hold them. Empty: all are.
	When string `yaml:"when"`
	// Unchanged is skip where a call is not made that says what the key's last one has said; empty: each is.
	Unchanged string `yaml:"unchanged" json:"-"`
	// UnchangedFor is how long after a call that holds: others may write the table, too.
	UnchangedFor time.Duration `yaml:"unchangedFor" json:"-"`
	Routes       []Route       `yaml:"routes"`
	After        []string      `yaml:"after"`  // mappings whose files go first
	Bundle       string        `yaml:"bundle"` // name of what they are joined by: mappings whose files are one multi-file ZIP
	Imports      Imports       `yaml:"imports"`
}

// CloudEvents is the envelope of events that are taken out of it before they are
// routed: the value is the event's data, and its attributes are headers.
const CloudEvents = "cloudevents"

// ValueFormat is format with its default.
func (m *Mapping) ValueFormat() string { return cmp.Or(m.Format, "json") }

// KeyFormat is kafkaKey with its default: Debezium's keys are never bare text,
// unless a transformation made them so.
func (m *Mapping) KeyFormat() string {
	if m.Envelope == debezium {
		return cmp.Or(m.KafkaKey, "json")
	}
	return cmp.Or(m.KafkaKey, "text")
}

// Field maps a value, read (From), constant (Value) or computed (Expr), to one
// target of the table.
type Field struct {
	// From is a path in the decoded value: names separated by dots, elements of
	// lists as [0], [-1] or [*], other names quoted. headers.NAME, topic, partition,
	// offset, timestamp and kafkaKey are the record's; the value's own members of
	// these names are reached in quotes.
	From  string  `yaml:"from"`
	Value Literal `yaml:"value" json:",omitempty"`
	Expr  string  `yaml:"expr" json:",omitempty"` // an expression of the expr language; nil says nothing
	// To is businessKey or a property of a custom table; of a profile table an
	// attribute, subscriptions#NAME, S_NAME for a segmentation, or
	// dataCollection.date, .source or .way.
	To string `yaml:"to"`
	// As is the format it is checked against and converted to: string, integer,
	// number, boolean, date, timestamp, list, email, phone, language, country,
	// sex, title or utm. Without one the value goes as it is.
	As    string `yaml:"as"`
	Scale int    `yaml:"scale"`                // power of ten that a number is multiplied with
	Of    string `yaml:"of" json:",omitempty"` // of a list: what As is to a value, to each element
	// True and False are what the source writes for the values of a boolean. They count
	// before true, false, 1 and 0.
	True  []string `yaml:"true" json:",omitempty"`
	False []string `yaml:"false" json:",omitempty"`
	// Decimal is the separator of numbers in text: a comma, or the point.
	Decimal string `yaml:"decimal" json:",omitempty"`
	// Format is how the source writes a date or timestamp: epochDays, -Seconds,
	// -Millis, -Micros or -Nanos, or a layout, strftime's or Go's.
	Format string `yaml:"format" json:",omitempty"`
	// Timezone is the zone (IANA name) of times that do not say theirs, and the
	// one that the result is written in.
	Timezone string  `yaml:"timezone" json:",omitempty"`
	Default  Literal `yaml:"default" json:",omitempty"` // what is missing or null becomes, without absent and null
	Absent   Missing `yaml:"absent" json:",omitempty"`  // what is missing becomes: omit by default
	Null     Missing `yaml:"null" json:",omitempty"`    // what is null becomes: null by default
}

// Missing says what becomes of a value that is not there, or that is null.
type Missing string

// The choices. A patch names only what changes, so what is missing from one is
// left out whatever the choice.
const (
	Omit   Missing = "omit"   // nothing is said about the target
	AsNull Missing = "null"   // the target becomes null
	Refuse Missing = "reject" // the record is a dead letter
)

// Literal is a constant of the configuration as JSON: text in quotes, a number,
// true or false. Empty: there is none.
type Literal string

// Type is what the definition of the table says of an attribute (profile tables)
// or of a property (custom tables).
type Type struct {
	Name string `yaml:"name"`
	As   string `yaml:"as"`
	Of   string `yaml:"of"` // of a list: the type of its elements
	// Length is the most characters a text may have; 0 stands for 255.
	Length int `yaml:"length"`
}

// Route sends the events its condition holds for to a lane. First match wins.
type Route struct {
	When string `yaml:"when"` // an expression of the expr language; empty: always
	Lane string `yaml:"lane"` // immediate | batch | auto | skip, which writes nothing
	// Weight is the share of scarce calls that the events have beside those of other
	// routes that wait, of all mappings; nil: 1. It is for routes that make calls.
	Weight *float64 `yaml:"weight" json:"-"`
	// Within is how old a record of the route is to be at most when it is confirmed; 0: no
	// matter. An auto route makes calls for rows that no file can bring in time.
	Within time.Duration `yaml:"within" json:"-"`
	// Objective is the share of the route's records that are to be within it; nil: 0.99.
	Objective *float64 `yaml:"objective" json:"-"`
	// Name is what the route is called in metrics and on the page; empty: its number from 1.
	Name string `yaml:"name" json:"-"`
	// Spare says whether an auto route makes calls with all the rate that is left; nil:
	// true. Else it calls only for rows that no file can bring in time.
	Spare *bool `yaml:"spare" json:"-"`
}

// autoLane is the word of routes of the batch lane whose rows may be called.
const autoLane = "auto"

// Auto is what an auto route says; ok is false for any other route.
func (r Route) Auto() (within time.Duration, spare, ok bool) {
	return r.Within, r.Spare == nil || *r.Spare, r.Lane == autoLane
}

// decided is the route with the lane that decides whose a record is.
func (r Route) decided() Route {
	if r.Lane == autoLane {
		r.Lane = schemas.Batch.String()
	}
	return r
}

// Imports is how the batch lane loads this mapping's table.
type Imports struct {
	Upsert      *Import  `yaml:"upsert"`
	Patch       *Import  `yaml:"patch"`
	Merge       *Import  `yaml:"merge"`
	Create      *Import  `yaml:"create"`
	Delete      *Import  `yaml:"delete"`
	Columns     []Column `yaml:"columns"`
	CSV         CSV      `yaml:"csv"`
	Roll        Roll     `yaml:"roll"`
	MaxFile     MaxFile  `yaml:"maxFile"`
	SlotsPerDay int      `yaml:"slotsPerDay"`
	Reserve     int      `yaml:"reserve"`
	RetryFailed int      `yaml:"retryFailed"`
	KeepResults bool     `yaml:"keepResults"` // output files stay in the spool
	// FileName is the name of the mapping's file in the ZIP of its bundle, in which
	// $YYYYMMDD stands for a day; empty: MAPPING.csv.
	FileName string `yaml:"fileName"`
	Timezone string `yaml:"timezone"` // IANA name; the calendar the day's slots follow
}

// of is the import that loads op's rows, nil where there is none.
func (i *Imports) of(op schemas.Op) *Import {
	switch op {
	case schemas.Upsert:
		return i.Upsert
	case schemas.Patch:
		return i.Patch
	case schemas.Merge:
		return i.Merge
	case schemas.Create:
		return i.Create
	case schemas.Delete:
		return i.Delete
	}
	return nil
}

// All are the imports that there are, by their op.
func (i *Imports) All() iter.Seq2[schemas.Op, *Import] {
	return func(yield func(schemas.Op, *Import) bool) {
		for _, op := range schemas.Ops {
			if load := i.of(op); load != nil && !yield(op, load) {
				return
			}
		}
	}
}

// Import names the triggered ETL that loads one kind of file.
type Import struct {
	ETL  string `yaml:"etl"`
	Mode string `yaml:"mode"` // CREATE_OR_UPDATE (or CREATE_UPDATE) | CREATE_ONLY | UPDATE_ONLY | DELETE
	// Fingerprint is what `etl create` printed when it created the ETL. A mapping
	// that its ETL no longer fits is refused. Empty: it is not checked.
	Fingerprint string `yaml:"fingerprint" json:"-"`
	// IgnoresEmpty says that the ETL's definition has ignoreEmptyValues for every
	// column but the key's: an empty cell leaves the field as it is. It is for ETLs
	// that `etl create` did not create.
	IgnoresEmpty bool `yaml:"ignoresEmpty" json:"-"`
}

// Column is one CSV column: a bare name, or a name with what absent and null
// become: "empty", "immediate", or a literal.
type Column struct {
	Name   string `yaml:"name"`
	Absent string `yaml:"absent"`
	Null   string `yaml:"null"`
}

// CSV is the file format the ETL expects.
type CSV struct {
	Separator   string `yaml:"separator"`
	Enclosing   string `yaml:"enclosing"`
	Encoding    string `yaml:"encoding"`
	Compression string `yaml:"compression"` // empty: GZIP; of a bundle always ZIP
}

// Roll says when an open file is complete: whichever limit is reached first. 0: there is
// no such limit.
type Roll struct {
	Rows  int64         `yaml:"rows"`
	Bytes Bytes         `yaml:"bytes"`
	Age   time.Duration `yaml:"age"`
	At    []string      `yaml:"at"` // times of day, as 15:04, on the clock of the timezone
}

// TimeOfDay reads a time of day written as 15:04; since midnight, as the clock shows it.
func TimeOfDay(text string) (time.Duration, error) {
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, fmt.Errorf("%q is no time of day such as 06:30", text)
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

// TimesOfDay are those of At, as TimeOfDay reads them.
func (r Roll) TimesOfDay() (at []time.Duration) {
	for _, text := range r.At {
		if t, err := TimeOfDay(text); err == nil { // package check has refused all others
			at = append(at, t)
		}
	}
	return at
}

// MaxFile is how large a file may be as it is sent. 0: any size.
type MaxFile struct {
	Rows  int64 `yaml:"rows"`  // without the header
	Bytes Bytes `yaml:"bytes"` // compressed
}

// Bytes is a size, written as 128MiB or a plain number in the file.
type Bytes int64

// units of a size, longest spelling first so that a suffix match is unique.
var units = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// ParseBytes reads a size: a whole number, alone or with one of B, KiB, MiB,
// GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000).
func ParseBytes(s string) (Bytes, error) {
	digits, unit := strings.TrimSpace(s), int64(1)
	for _, u := range units {
		if number, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = strings.TrimSpace(number), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("size %q: write a whole number with a unit, such as 256MiB", s)
	}
	if n > math.MaxInt64/uint64(unit) {
		return 0, fmt.Errorf("size %q: more than fits in 64 bits", s)
	}
	return Bytes(n) * Bytes(unit), nil
}

// String writes the size with the largest binary unit that leaves a whole
// number; ParseBytes reads it back.
func (b Bytes) String() string {
	for i := 3; i >= 0; i-- {
		if unit := Bytes(units[i].bytes); b != 0 && b%unit == 0 {
			return strconv.FormatInt(int64(b/unit), 10) + units[i].suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
