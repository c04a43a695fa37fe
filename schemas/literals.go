package schemas

import (
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// texts is where a decoder of a binary format puts the text of a record: the record
// itself, of which strings are parts, and behind it the literals that it has none of.
type texts struct {
	record  string
	buffer  strings.Builder // of literals; records share it, and none is overwritten
	scratch [64]byte
}

// literalBytes is a buffer's size: a text that is kept keeps all of it.
const literalBytes = 1024

// keep makes a literal the record's. A full buffer is left to the texts in it.
func (t *texts) keep(literal []byte) string {
	if t.buffer.Cap()-t.buffer.Len() < len(literal) {
		t.buffer.Reset()
		t.buffer.Grow(max(len(literal), literalBytes))
	}
	at := t.buffer.Len()
	t.buffer.Write(literal)
	return t.buffer.String()[at:]
}

// The texts of values that formats hold in another form. Numbers become literals,
// times what the formats of the table's fields are written in (a date, or a date
// and a time with Z where the schema means UTC), bytes base64.

// integer is a number's literal. Small ones are not even written.
func (t *texts) integer(i int64) string {
	if uint64(i) < 100 {
		return strconv.Itoa(int(i))
	}
	return t.keep(strconv.AppendInt(t.scratch[:0], i, 10))
}

// float is the shortest literal that means f, written as JSON encoders do. What
// JSON has no number for is text, as in Protobuf's JSON mapping.
func (t *texts) float(f float64, bits int) Value {
	switch {
	case math.IsNaN(f):
		return StringValue("NaN")
	case math.IsInf(f, 1):
		return StringValue("Infinity")
	case math.IsInf(f, -1):
		return StringValue("-Infinity")
	}
	format := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return NumberValue(t.keep(strconv.AppendFloat(t.scratch[:0], f, format, -1, bits)))
}

func (t *texts) base64(raw []byte) Value {
	return StringValue(t.keep(base64.StdEncoding.AppendEncode(t.scratch[:0], raw)))
}

// maxDecimal bounds a decimal's bytes in binary formats: over 300 digits. Turning
// longer ones into text takes time that grows faster than they do.
const (
	maxDecimal    = 128
	tooLargeScale = 2*maxDecimal + 1
)

// decimal is the literal of a decimal of a binary format.
func (t *texts) decimal(raw []byte, scale int) Value {
	switch {
	case len(raw) > maxDecimal:
		return textValue(Unreadable, "must be a decimal of at most 128 bytes")
	case scale <= -tooLargeScale || scale >= tooLargeScale:
		return textValue(Unreadable, "must be a decimal with a scale from -256 to 256")
	}
	return NumberValue(t.keep(appendDecimal(t.scratch[:0], raw, scale)))
}

// appendDecimal writes a big-endian two's complement number over ten to the power
// of scale, with as many decimals as the scale says.
func appendDecimal(out, raw []byte, scale int) []byte {
	var short [24]byte
	var digits []byte
	negative := len(raw) > 0 && raw[0]&0x80 != 0
	if len(raw) <= 8 {
		u := uint64(0)
		if negative {
			u = math.MaxUint64
		}
		for _, b := range raw {
			u = u<<8 | uint64(b)
		}
		if negative {
			u = -u
		}
		digits = strconv.AppendUint(short[:0], u, 10)
	} else {
		n := new(big.Int).SetBytes(raw)
		if negative {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(raw))*8))
		}
		digits = n.Abs(n).Append(nil, 10)
	}
	if negative {
		out = append(out, '-')
	}
	whole := len(digits) - scale
	switch {
	case scale > 0 && whole > 0:
		out = append(append(out, digits[:whole]...), '.')
		return append(out, digits[whole:]...)
	case scale > 0:
		out = append(out, "0."...)
		for ; whole < 0; whole++ {
			out = append(out, '0')
		}
		return append(out, digits...)
	}
	out = append(out, digits...)
	if digits[0] != '0' {
		for ; scale < 0; scale++ {
			out = append(out, '0')
		}
	}
	return out
}

// appendFraction writes a number of nanoseconds as the fraction of a second,
// without zeros at its end.
func appendFraction(out []byte, nanos int64) []byte {
	if nanos == 0 {
		return out
	}
	digits := 9
	for ; nanos%10 == 0; digits-- {
		nanos /= 10
	}
	at := len(out)
	out = append(out, ".000000000"[:digits+1]...)
	for i := at + digits; nanos > 0; i-- {
		out[i] = byte('0' + nanos%10)
		nanos /= 10
	}
	return out
}

// timeType is what a whole number says of a time: a schema's logical type or the
// semantic name that Connect gives it.
type timeType struct {
	kind      timeKind
	perSecond int64 // what it is counted in, but for days
}

type timeKind uint8

const (
	daysSince1970 timeKind = iota + 1
	timeOfDay
	timestamp      // of UTC
	localTimestamp // without a zone
)

// Units of a second.
const (
	perMilli = 1_000
	perMicro = 1_000_000
	perNano  = 1_000_000_000
)

const (
	ruleYears = "must be of the years 1 to 9999: infinity has no place in the table"
	ruleClock = "must be a time from 00:00:00 to 24:00:00"
)

// append writes the time that n says; rule is what it breaks instead.
func (t timeType) append(out []byte, n int64) (text []byte, rule string) {
	switch t.kind {
	case timeOfDay:
		return appendClock(out, n, t.perSecond)
	case daysSince1970:
		if n < firstSecond/secondsOfDay || n > lastSecond/secondsOfDay {
			return nil, ruleYears
		}
		return time.Unix(n*secondsOfDay, 0).UTC().AppendFormat(out, time.DateOnly), ""
	}
	seconds, part := n/t.perSecond, n%t.perSecond
	if part < 0 {
		seconds, part = seconds-1, part+t.perSecond
	}
	return appendTimestamp(out, seconds, part*(perNano/t.perSecond), t.kind == localTimestamp)
}

const secondsOfDay = 24 * 60 * 60

// The seconds of the years that have four digits: databases write infinity as the
// last year that a number can hold.
var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// appendTimestamp writes a date and a time of day, with Z unless it is local.
func appendTimestamp(out []byte, seconds, nanos int64, local bool) (text []byte, rule string) {
	if seconds < firstSecond || seconds > lastSecond {
		return nil, ruleYears
	}
	layout := "2006-01-02T15:04:05.999999999Z"
	if local {
		layout = "2006-01-02T15:04:05.999999999"
	}
	return time.Unix(seconds, nanos).UTC().AppendFormat(out, layout), ""
}

// appendClock writes a time of day; 24:00:00, the end of a day, is one too.
func appendClock(out []byte, n, perSecond int64) (text []byte, rule string) {
	if n < 0 || n > secondsOfDay*perSecond {
		return nil, ruleClock
	}
	seconds := n / perSecond
	for i, part := range [...]int64{seconds / 3600, seconds / 60 % 60, seconds % 60} {
		if i > 0 {
			out = append(out, ':')
		}
		out = append(out, byte('0'+part/10), byte('0'+part%10))
	}
	return appendFraction(out, n%perSecond*(perNano/perSecond)), ""
}
