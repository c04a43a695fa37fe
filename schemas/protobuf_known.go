package schemas

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// conversion is what a message of a well-known type says as a whole.
type conversion func(t *texts, v Value) (Value, error)

// conversions are the well-known types, as Protobuf's JSON mapping writes them,
// and those that Kafka Connect's converter writes.
var conversions = map[protoreflect.FullName]conversion{
	"google.protobuf.Timestamp":   convertTimestamp,
	"google.protobuf.Duration":    convertDuration,
	"google.protobuf.FieldMask":   convertFieldMask,
	"google.protobuf.Any":         convertAny,
	"google.protobuf.Struct":      only,
	"google.protobuf.ListValue":   only,
	"google.protobuf.Value":       anyOf,
	"google.protobuf.BoolValue":   only,
	"google.protobuf.StringValue": only,
	"google.protobuf.BytesValue":  only,
	"google.protobuf.Int32Value":  only,
	"google.protobuf.Int64Value":  only,
	"google.protobuf.UInt32Value": only,
	"google.protobuf.UInt64Value": only,
	"google.protobuf.FloatValue":  only,
	"google.protobuf.DoubleValue": only,
	"google.type.Date":            convertDate,
	"google.type.TimeOfDay":       convertTimeOfDay,
	"confluent.type.Decimal":      convertDecimal,
}

// only is a message that is there for its one field.
func only(_ *texts, v Value) (Value, error) {
	for i := range v.Items() {
		return v.Items()[i].Value, nil
	}
	return v, nil // of a schema that gives a well-known name to a type of its own
}

// anyOf is the one field that is set, null without one.
func anyOf(_ *texts, v Value) (Value, error) {
	for i := range v.Items() {
		if v.Items()[i].Value.kind != Absent {
			return v.Items()[i].Value, nil
		}
	}
	return NullValue(), nil
}

var errTimestamp = errors.New("a timestamp is outside the years 1 to 9999, or its nanoseconds are no fraction of a second")

func convertTimestamp(t *texts, v Value) (Value, error) {
	seconds, nanos := wholeOf(v, "seconds"), wholeOf(v, "nanos")
	if nanos < 0 || nanos >= 1e9 {
		return Value{}, errTimestamp
	}
	text, ok := t.timestamp(seconds, nanos, false)
	if !ok {
		return Value{}, errTimestamp
	}
	return StringValue(text), nil
}

var errDuration = errors.New("a duration's seconds and nanoseconds do not fit together")

// convertDuration is seconds with a fraction and an s, such as -1.5s.
func convertDuration(t *texts, v Value) (Value, error) {
	seconds, nanos := wholeOf(v, "seconds"), wholeOf(v, "nanos")
	if nanos <= -1e9 || nanos >= 1e9 || seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 || seconds == -1<<63 {
		return Value{}, errDuration
	}
	out := t.scratch[:0]
	if seconds < 0 || nanos < 0 {
		out = append(out, '-')
		seconds, nanos = -seconds, -nanos
	}
	out = appendFraction(strconv.AppendInt(out, seconds, 10), nanos, 9)
	return StringValue(t.keep(append(out, 's'))), nil
}

func convertFieldMask(_ *texts, v Value) (Value, error) {
	paths := make([]string, len(v.Get("paths").Items()))
	for i, path := range v.Get("paths").Items() {
		paths[i] = path.Value.Text()
	}
	return StringValue(strings.Join(paths, ",")), nil
}

// convertAny leaves the message that is inside as base64: its type need not be
// known here.
func convertAny(_ *texts, v Value) (Value, error) {
	for i := range v.Items() {
		if v.Items()[i].Name == "type_url" {
			v.Items()[i].Name = "@type"
		}
	}
	return v, nil
}

// convertDate is a date; one without a year or a day stays the object it is.
func convertDate(t *texts, v Value) (Value, error) {
	year, month, day := wholeOf(v, "year"), wholeOf(v, "month"), wholeOf(v, "day")
	when := time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	if year < 1 || year > 9999 || when.Month() != time.Month(month) || when.Day() != int(day) {
		return v, nil
	}
	text, _ := t.date(when.Unix() / secondsOfDay)
	return StringValue(text), nil
}

func convertTimeOfDay(t *texts, v Value) (Value, error) {
	hours, minutes, seconds, nanos := wholeOf(v, "hours"), wholeOf(v, "minutes"), wholeOf(v, "seconds"), wholeOf(v, "nanos")
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || seconds < 0 || seconds > 59 || nanos < 0 || nanos >= 1e9 {
		return v, nil
	}
	text, _ := t.clock(((hours*60+minutes)*60+seconds)*1e9+nanos, 1e9, 9)
	return StringValue(text), nil
}

var errScale = errors.New("a decimal's scale is not from 0 to 256")

func convertDecimal(t *texts, v Value) (Value, error) {
	raw, err := base64.StdEncoding.DecodeString(v.Get("value").Text())
	scale := wholeOf(v, "scale")
	if err != nil || scale < 0 || scale > 2*maxDecimal {
		return Value{}, errScale
	}
	return t.decimal(raw, int(scale))
}

// wholeOf is the whole number that a member holds.
func wholeOf(v Value, name string) int64 {
	n, _ := strconv.ParseInt(v.Get(name).Text(), 10, 64)
	return n
}
