package router

import "time"

// Mapping is one block of the configuration file under `mappings`: topics to
// one table, with fields and routes. Defaults are filled in by whoever loads
// the file; Compile checks that the block can work.
type Mapping struct {
	Name         string   `yaml:"name"`
	Topics       []string `yaml:"topics"`
	Format       string   `yaml:"format"`       // json | avro | json-schema | protobuf
	Envelope     string   `yaml:"envelope"`     // none | debezium
	KafkaKey     string   `yaml:"kafkaKey"`     // text | json | avro: how a tombstone's key is read
	ProfileTable string   `yaml:"profileTable"` // exactly one of the two tables
	CustomTable  string   `yaml:"customTable"`
	Key          string   `yaml:"key"`       // unique-key attribute; businessKey for custom tables
	ProfileID    string   `yaml:"profileId"` // path of the service's profile id in the value
	Fields       []Field  `yaml:"fields"`    // none: the value is a canonical event
	Routes       []Route  `yaml:"routes"`
	After        []string `yaml:"after"`  // mappings whose files go first
	Bundle       string   `yaml:"bundle"` // mappings sharing one multi-file ZIP
	Imports      Imports  `yaml:"imports"`
}

// Field maps one source value to one target of the table. A source that is
// missing gives no cell; one that is null gives null.
type Field struct {
	From string `yaml:"from"` // names in the decoded value, separated by dots
	// To is businessKey or a property of a custom table; of a profile table an
	// attribute, subscriptions#NAME, S_NAME for a segmentation, or
	// dataCollection.date, .source or .way.
	To string `yaml:"to"`
	// As is the format it is checked against and converted to: string, integer,
	// number, boolean, date, timestamp, list, email, phone, language, country,
	// sex, title or utm. Without one the value goes as it is.
	As    string `yaml:"as"`
	Scale int    `yaml:"scale"` // power of ten that a number is multiplied with
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
	Timezone    string   `yaml:"timezone"` // IANA name; the calendar the day's slots follow
}

// Import names the triggered ETL that loads one kind of file.
type Import struct {
	ETL  string `yaml:"etl"`
	Mode string `yaml:"mode"` // CREATE_OR_UPDATE (or CREATE_UPDATE) | CREATE_ONLY | UPDATE_ONLY | DELETE
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
	Compression string `yaml:"compression"`
}

// Roll says when an open file is complete: whichever limit is reached first.
type Roll struct {
	Rows  int64         `yaml:"rows"`
	Bytes Bytes         `yaml:"bytes"`
	Age   time.Duration `yaml:"age"`
}

// Bytes is a size, written as 128MiB or a plain number in the file.
type Bytes int64
