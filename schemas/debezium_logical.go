package schemas

import (
	"encoding/base64"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Logical converts a value by the semantic name that Kafka Connect's schemas
// give a type, such as io.debezium.time.Date: in JSON the member `name` of a
// schema, in Avro `connect.name`. parameters is the object of texts beside it
// (`parameters`, `connect.parameters`). The value becomes what it stands for:
//
//	decimals             a Number with all its digits, 12.50
//	dates                2026-02-28
//	times of a day       23:59:59.123456
//	timestamps           2026-01-02T03:04:05.678901, without a zone where the source column has none
//	strings of bits      101
//
// Null, names that are not known, names whose value says already what it is
// (Json, Uuid, Enum, ZonedTimestamp, durations in microseconds) and values that
// are converted already are returned as they are. Errors are *ValueError
// without a field.
func Logical(name string, parameters, v Value) (Value, error) {
	converted, err := logical(name, parameters, v)
	if err != nil {
		return Value{}, err
	}
	return converted, nil // not err, whose nil would not be error's
}

func logical(name string, parameters, v Value) (Value, *ValueError) {
	if v.kind == Null || v.kind == Absent {
		return v, nil
	}
	switch name {
	case "org.apache.kafka.connect.data.Decimal":
		return decimalOf(parameters.Get("scale"), v)
	case "io.debezium.data.VariableScaleDecimal":
		if v.kind != Object {
			return v, nil
		}
		return decimalOf(v.Get("scale"), v.Get("value"))
	case "io.debezium.data.Bits":
		return bitsOf(parameters.Get("length"), v), nil
	case "io.debezium.time.Date", "org.apache.kafka.connect.data.Date":
		return dateOf(v)
	case "io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp":
		return timestampOf(v, perMilli)
	case "io.debezium.time.MicroTimestamp":
		return timestampOf(v, perMicro)
	case "io.debezium.time.NanoTimestamp":
		return timestampOf(v, perNano)
	case "io.debezium.time.Time", "org.apache.kafka.connect.data.Time":
		return clockOf(v, perMilli)
	case "io.debezium.time.MicroTime":
		return clockOf(v, perMicro)
	case "io.debezium.time.NanoTime":
		return clockOf(v, perNano)
	case "io.debezium.time.IsoDate", "io.debezium.time.IsoTime", "io.debezium.time.IsoTimestamp":
		return isoOf(v)
	}
	return v, nil
}

// Units of a second.
const (
	perMilli = 1_000
	perMicro = 1_000_000
	perNano  = 1_000_000_000
)

const (
	localTimestamp = "2006-01-02T15:04:05.999999999"
	localClock     = "15:04:05.999999999"

	ruleYears = "must be of the years 1 to 9999: infinity has no place in the table"
	ruleClock = "must be a time from 00:00:00 to 24:00:00"
	ruleWhole = "must be a whole number: the schema says that it is a date or a time"
)

// dateOf writes a number of days since 1970. Text is a date already.
func dateOf(v Value) (Value, *ValueError) {
	if v.kind != Number {
		return v, nil
	}
	days, err := strconv.ParseInt(v.Text(), 10, 32)
	if err != nil {
		return Value{}, Invalid("", ruleWhole)
	}
	return inYears(time.Unix(days*24*60*60, 0), time.DateOnly)
}

// timestampOf writes a number of units since 1970. Text is a moment already.
func timestampOf(v Value, perSecond int64) (Value, *ValueError) {
	if v.kind != Number {
		return v, nil
	}
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	if err != nil {
		return Value{}, Invalid("", ruleWhole)
	}
	return inYears(time.Unix(n/perSecond, n%perSecond*(perNano/perSecond)), localTimestamp)
}

// inYears keeps to the years that have four digits: databases write infinity
// as the last year that a number can hold.
func inYears(at time.Time, layout string) (Value, *ValueError) {
	at = at.UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		return Value{}, Invalid("", ruleYears)
	}
	return StringValue(at.Format(layout)), nil
}

// clockOf writes a time of day; 24:00:00, the end of a day, is one too.
func clockOf(v Value, perSecond int64) (Value, *ValueError) {
	if v.kind != Number {
		return v, nil
	}
	const day = 24 * 60 * 60
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	switch {
	case err != nil || n < 0 || n > day*perSecond:
		return Value{}, Invalid("", ruleClock)
	case n == day*perSecond:
		return StringValue("24:00:00"), nil
	}
	return StringValue(time.Unix(n/perSecond, n%perSecond*(perNano/perSecond)).UTC().Format(localClock)), nil
}

// isoOf takes the Z away that Debezium's isostring mode writes after values of
// columns that have no zone: they would be taken for moments of UTC.
func isoOf(v Value) (Value, *ValueError) {
	if v.kind != String {
		return v, nil
	}
	if strings.HasPrefix(v.Text(), "-") || strings.HasPrefix(v.Text(), "+") {
		return Value{}, Invalid("", ruleYears)
	}
	return StringValue(strings.TrimSuffix(v.Text(), "Z")), nil
}

// Bounds of a decimal: PostgreSQL's numeric has up to 131072 digits, Oracle's
// scales go from -84 to 127. The service takes far less; a few bytes may not
// ask for a text of megabytes.
const (
	maxScale        = 1_000
	maxDecimalBytes = 1_000
)

// decimalOf reads the unscaled big-endian two's complement of a decimal, which
// JSON carries in base64. A number, as converters write it that were told to, is
// one already.
func decimalOf(scale, v Value) (Value, *ValueError) {
	if v.kind != String {
		return v, nil
	}
	power, err := strconv.Atoi(scale.Text())
	if err != nil || power < -maxScale || power > maxScale {
		return Value{}, Invalid("", "a decimal needs a scale from -1000 to 1000")
	}
	raw, err := base64.StdEncoding.DecodeString(v.Text())
	if err != nil || len(raw) > maxDecimalBytes {
		return Value{}, Invalid("", "must be a decimal's bytes in base64, 1000 at most")
	}
	return NumberValue(decimalText(raw, power)), nil
}

// decimalText writes a big-endian two's complement divided by ten to the power
// of scale, with as many decimals as the scale says.
func decimalText(raw []byte, scale int) string {
	n := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	sign, digits := "", n.String()
	if n.Sign() < 0 {
		sign, digits = "-", digits[1:]
	}
	switch {
	case n.Sign() == 0 && scale < 0:
		return "0"
	case scale <= 0:
		return sign + digits + strings.Repeat("0", -scale)
	case len(digits) <= scale:
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// bitsOf writes the bits of a column of a fixed length, which come as
// little-endian bytes in base64. Of bit varying the length is not known: it
// stays as it is.
func bitsOf(length, v Value) Value {
	n, err := strconv.Atoi(length.Text())
	if v.kind != String || err != nil || n < 1 {
		return v
	}
	raw, err := base64.StdEncoding.DecodeString(v.Text())
	if err != nil || n > 8*len(raw) {
		return v
	}
	bits := make([]byte, n)
	for i := range bits {
		bits[n-1-i] = '0' + raw[i/8]>>(i%8)&1
	}
	return StringValue(string(bits))
}
