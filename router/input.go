package router

import (
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/types"

	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// The names that fields, conditions and expressions know of the record around
// the value. They win over members of the value with the same name; `from`
// reaches those in quotes.
const (
	rootHeaders   = "headers"
	rootTopic     = "topic"
	rootPartition = "partition"
	rootOffset    = "offset"
	rootTimestamp = "timestamp"
	rootKafkaKey  = "kafkaKey"
)

// rootValue is the name of the decoded value as a whole in conditions and expressions:
// value.NAME is its own member of any name. Paths are in the value anyway.
const rootValue = "value"

// recordRoots are those names with their types.
var recordRoots = types.Map{
	rootHeaders: anObject, rootTopic: types.String, rootPartition: types.Int, rootOffset: types.Int,
	rootTimestamp: types.TypeOf(time.Time{}), rootKafkaKey: types.Any,
}

var anObject = types.TypeOf(map[string]any{})

// input is what fields, conditions and expressions read: the event of a
// canonical record, or the decoded value itself.
type input struct {
	record    *Record
	event     *schemas.Event // nil: names are members of value
	value     *schemas.Value
	keyFormat string // how the record's key is read
	// Of a record of Debezium's value is the row, and names are its columns, but
	// for op.
	change *schemas.Change
	op     schemas.Op // once it is known
}

// read is the value at the end of names; Absent where there is none.
func (in *input) read(names []string) schemas.Value {
	if names[0] == rootHeaders {
		if len(names) == 2 {
			return in.record.header(names[1])
		}
		return schemas.Value{}
	}
	v := in.root(names[0])
	for _, name := range names[1:] {
		v = v.Get(name)
	}
	return v
}

// root is the value of a first name. The timestamp, and headers as a whole, are no
// values: plain knows them.
func (in *input) root(name string) schemas.Value {
	switch name {
	case rootTopic:
		return schemas.StringValue(in.record.Topic)
	case rootPartition:
		return values.Int(int64(in.record.Partition))
	case rootOffset:
		return values.Int(in.record.Offset)
	case rootKafkaKey:
		key, _ := kafkaKeyValue(in.record, in.keyFormat) // a key that cannot be read is not there
		return key
	case rootTimestamp:
		return schemas.Value{}
	case rootValue:
		return *in.value
	}
	event := in.event
	if event == nil {
		if name == "op" && in.change != nil && in.op != 0 {
			return schemas.StringValue(in.op.String())
		}
		return in.value.Get(name)
	}
	switch name {
	case "op":
		return schemas.StringValue(event.Op.String())
	case "profileId":
		return textOrAbsent(event.ProfileID)
	case "businessKey":
		return textOrAbsent(event.BusinessKey)
	case "key":
		return event.Key
	case "attributes":
		return event.Attributes
	case "subscriptions":
		return event.Subscriptions
	case "segments":
		return event.Segments
	case "properties":
		return event.Properties
	}
	return schemas.Value{}
}

// plain is the plain Go value at p, as expressions take it: nil where there is
// none, or none that can be read, as broken says.
func (in *input) plain(p readPath) (v any, broken *schemas.ValueError) {
	if len(p.names) == 1 {
		switch p.names[0] {
		case rootTimestamp:
			if t, ok := in.record.sent(); ok {
				return t, nil
			}
			return nil, nil
		case rootHeaders:
			return in.headers(), nil
		}
	}
	read := in.read(p.names)
	return read.Any(), read.Unreadable()
}

func (in *input) headers() any {
	all := make(map[string]any, len(in.record.Headers))
	for _, h := range in.record.Headers {
		all[h.Key] = nil
		if h.Value != nil {
			all[h.Key] = string(h.Value)
		}
	}
	return all
}

func textOrAbsent(text string) schemas.Value {
	if text == "" {
		return schemas.Value{}
	}
	return schemas.StringValue(text)
}

// labelKafkaKey names a record's key in errors.
const labelKafkaKey = "kafka key"

// kafkaKey reads the row's key from a record's key, in the spelling that the
// key of the record's events has.
func (c *Compiled) kafkaKey(in *input) (string, *Reject) {
	if len(in.record.Key) == 0 {
		return "", unreadableKey(ruleNoKey)
	}
	v, reject := kafkaKeyValue(in.record, in.keyFormat)
	if reject != nil {
		return "", reject
	}
	if c.key != nil {
		v, reject = c.key.ofKafkaKey(in, v)
	} else if v.Kind() == schemas.Object {
		v = v.Get(c.KeyName)
	}
	if reject != nil {
		return "", badValue(labelKafkaKey, reject.Rule)
	}
	text, rule := c.keyTarget.Key(v)
	if rule != "" {
		return "", unreadableKey(rule)
	}
	return text, nil
}

const ruleNoKey = "missing, but the record has no value: nothing says what to delete"

func unreadableKey(rule string) *Reject {
	return &Reject{Code: CodeDecode, ValueError: schemas.ValueError{Field: labelKafkaKey, Rule: rule}}
}

// connectKey is how Kafka Connect's JSON converter writes keys: json, with or
// without a schema around the key.
const connectKey = "connect"

// keyDecoding is how a record's key is decoded.
func (m *Mapping) keyDecoding() string {
	if m.Envelope == debezium && m.KeyFormat() == "json" {
		return connectKey
	}
	return m.KeyFormat()
}

// kafkaKeyValue decodes a record's key; Absent where there is none.
func kafkaKeyValue(rec *Record, format string) (schemas.Value, *Reject) {
	if len(rec.Key) == 0 {
		return schemas.Value{}, nil
	}
	if rec.Key[0] == 0 && !schemas.Format(format).Registered() {
		return schemas.Value{}, unreadableKey("begins with a zero byte, as a key in the format of a schema registry does: say in kafkaKey which it is")
	}
	v, err := rec.KeyValue, rec.KeyErr
	switch format {
	case "text":
		if !utf8.Valid(rec.Key) {
			return schemas.Value{}, unreadableKey("not valid UTF-8")
		}
		return schemas.StringValue(string(rec.Key)), nil
	case "json", connectKey:
		v, err = schemas.NewJSON().Decode(rec.Key)
	}
	if err != nil {
		return schemas.Value{}, unreadableKey(err.Error())
	}
	if format == connectKey {
		if v, err = schemas.FromConnect(v); err != nil {
			return schemas.Value{}, unreadableKey("does not hold what its schema says")
		}
	}
	return v, nil
}

func present(v schemas.Value) bool {
	return v.Kind() != schemas.Absent && v.Kind() != schemas.Null
}
