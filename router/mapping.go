package router

import "time"

// Mapping is one block of the configuration file under `mappings`: topics to
// one table, with fields and routes. Defaults are filled in by whoever loads
// the file; Compile checks that the block can work.
type Mapping struct {
	Name     string   `yaml:"name"`
	Topics   []string `yaml:"topics"`
	Format   string   `yaml:"format"`   // json | avro | json-schema | protobuf
	Envelope string   `yaml:"envelope"` // none | debezium
	// KafkaKey is how a record's key is read: text | json | avro; by default text,
	// and json under the envelope debezium.
	KafkaKey string `yaml:"kafkaKey"`
	// UnavailableValue is Debezium's unavailable.value.placeholder, where that
	// was changed.
	UnavailableValue string `yaml:"unavailableValue"`
	ProfileTable     string `yaml:"profileTable"` // exactly one of the two tables
	CustomTable      string `yaml:"customTable"`
	Key              string `yaml:"key"`       // unique-key attribute; businessKey for custom tables
	ProfileID        string `yaml:"profileId"` // path of the service's profile id
	// Op is what a mapped record does, tombstones apart: upsert (the default),
	// patch, create or delete, or an expression that comes to one of these words.
	Op     string  `yaml:"op"`
	Fields []Field `yaml:"fields"` // none: the value is a canonical event
	// Types says what is known of the table's attributes or properties: events
	// are checked against it, in both lanes.
	Types   []Type   `yaml:"types"`
	Routes  []Route  `yaml:"routes"`
	After   []string `yaml:"after"`  // mappings whose files go first
	Bundle  string   `yaml:"bundle"` // name of what they are joined by: mappings whose files are one multi-file ZIP
	Imports Imports  `yaml:"imports"`
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
	// Format is how the source writes a date or timestamp: epochDays, -Seconds,
	// -Millis, -Micros or -Nanos, or a layout, strftime's or Go's.
	Format string `yaml:"format" json:",omitempty"`
	// Timezone is the zone (IANA name) of moments that do not say theirs, and the
	// one that the result is written in.
	Timezone string  `yaml:"timezone" json:",omitempty"`
	Default  Literal `yaml:"default" json:",omitempty"` // what is missing or null becomes, if nothing else is said
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
	Lane string `yaml:"lane"` // immediate | batch
}

// Imports is how the batch lane loads this mapping's table.
type Imports struct {
	Upsert      *Import  `yaml:"upsert"`
	Patch       *Import  `yaml:"patch"`
	Create      *Import  `yaml:"create"`
	Delete      *Import  `yaml:"delete"`
	Columns     []Column `yaml:"columns"`
	CSV         CSV      `yaml:"csv"`
	Roll        Roll     `yaml:"roll"`
	SlotsPerDay int      `yaml:"slotsPerDay"`
	Reserve     int      `yaml:"reserve"`
	RetryFailed int      `yaml:"retryFailed"`
	KeepResults bool     `yaml:"keepResults"` // output files stay in the spool
	// FileName is the name of the mapping's file in the ZIP of its bundle, in which
	// $YYYYMMDD stands for a day; empty: MAPPING.csv.
	FileName string `yaml:"fileName"`
	Timezone string `yaml:"timezone"` // IANA name; the calendar the day's slots follow
}

// Import names the triggered ETL that loads one kind of file.
type Import struct {
	ETL  string `yaml:"etl"`
	Mode string `yaml:"mode"` // CREATE_OR_UPDATE (or CREATE_UPDATE) | CREATE_ONLY | UPDATE_ONLY | DELETE
	// Fingerprint is what `etl create` printed when it created the ETL. A mapping
	// that its ETL no longer fits is refused. Empty: nobody looks.
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

// Roll says when an open file is complete: whichever limit is reached first.
type Roll struct {
	Rows  int64         `yaml:"rows"`
	Bytes Bytes         `yaml:"bytes"`
	Age   time.Duration `yaml:"age"`
}

// Bytes is a size, written as 128MiB or a plain number in the file.
type Bytes int64
