package schemas

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// texts is where a decoder puts the text of a record: the record itself, of
// which strings are parts, and behind it the literals that it has none of.
type texts struct {
	record  string
	buffer  strings.Builder // of literals; records share it, and none is overwritten
	scratch [64]byte
	made    int // bytes of literals in this record, and before its begin in the last: a guess at the next one's
}

// A text that is kept keeps its whole block, which therefore is for few records
// and never large.
const (
	sharingTexts = 8
	sharedBytes  = 4096
)

func (t *texts) begin(data []byte) {
	if made := min(t.made, sharedBytes); made > 0 {
		t.reserve(made)
	}
	t.record, t.made = unsafe.String(unsafe.SliceData(data), len(data)), 0
}

func (t *texts) end() { t.record = "" }

// reserve makes room for n bytes in one piece. A full buffer is left to the texts
// in it.
func (t *texts) reserve(n int) {
	if t.buffer.Cap()-t.buffer.Len() >= n {
		return
	}
	t.buffer.Reset()
	t.buffer.Grow(max(n, min(sharingTexts*n, sharedBytes)))
}

// keep makes a literal the record's.
func (t *texts) keep(literal []byte) string {
	t.made += len(literal)
	if t.buffer.Cap()-t.buffer.Len() < len(literal) {
		t.reserve(max(len(literal), 64))
	}
	at := t.buffer.Len()
	t.buffer.Write(literal)
	return t.buffer.String()[at:]
}

// The texts of values that binary formats hold in another form. Numbers become
// literals, moments what the formats of the table's fields are written in
// (a date, or a date and a time with Z where the schema means UTC), bytes base64.

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

// maxDecimal bounds a decimal's bytes: over 300 digits. Turning longer ones into
// text takes time that grows faster than they do.
const maxDecimal = 128

// decimal is the literal of a big-endian two's complement number over ten to
// the power of scale.
func (t *texts) decimal(raw []byte, scale int) (Value, error) {
	if len(raw) > maxDecimal {
		return Value{}, errDecimal
	}
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
	return NumberValue(t.keep(appendPointed(t.scratch[:0], digits, negative, scale))), nil
}

// appendPointed sets sign and decimal point: the digits 5 with scale 2 are 0.05.
func appendPointed(out, digits []byte, negative bool, scale int) []byte {
	if negative {
		out = append(out, '-')
	}
	whole := len(digits) - scale
	if whole > 0 {
		out = append(out, digits[:whole]...)
		digits = digits[whole:]
	} else {
		out = append(out, '0')
	}
	if scale > 0 {
		out = append(out, '.')
	}
	for ; whole < 0; whole++ {
		out = append(out, '0')
	}
	if scale > 0 {
		out = append(out, digits...)
	}
	return out
}

func (t *texts) base64(raw []byte) Value {
	return StringValue(t.keep(base64.StdEncoding.AppendEncode(t.scratch[:0], raw)))
}

// uuid writes 16 bytes in the usual five groups.
func (t *texts) uuid(raw []byte) Value {
	out := t.scratch[:0]
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		start := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, raw[start:end])
	}
	return StringValue(t.keep(out))
}

// months writes Avro's duration (months, days, milliseconds) as ISO 8601 does.
func (t *texts) months(raw []byte) Value {
	out := append(t.scratch[:0], 'P')
	out = append(strconv.AppendUint(out, uint64(binary.LittleEndian.Uint32(raw)), 10), 'M')
	out = append(strconv.AppendUint(out, uint64(binary.LittleEndian.Uint32(raw[4:])), 10), 'D', 'T')
	millis := binary.LittleEndian.Uint32(raw[8:])
	out = strconv.AppendUint(out, uint64(millis/1000), 10)
	out = appendFraction(out, int64(millis%1000), 3)
	return StringValue(t.keep(append(out, 'S')))
}

// appendFraction writes a fraction of that many digits, without zeros at its end.
func appendFraction(out []byte, fraction int64, digits int) []byte {
	if fraction == 0 {
		return out
	}
	for fraction%10 == 0 {
		fraction /= 10
		digits--
	}
	at := len(out)
	out = append(out, ".000000000"[:digits+1]...)
	for i := at + digits; fraction > 0; i-- {
		out[i] = byte('0' + fraction%10)
		fraction /= 10
	}
	return out
}

// The years that a date of four digits can name.
var (
	firstTimestamp = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastTimestamp  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// timestamp is a date and a time of day, with Z unless it is local. One that has no
// date of four digits stays the number it is: databases mean infinity by it.
func (t *texts) timestamp(seconds, nanos int64, local bool) (text string, ok bool) {
	if seconds < firstTimestamp || seconds > lastTimestamp {
		return "", false
	}
	layout := "2006-01-02T15:04:05.999999999Z"
	if local {
		layout = "2006-01-02T15:04:05.999999999"
	}
	return t.keep(time.Unix(seconds, nanos).UTC().AppendFormat(t.scratch[:0], layout)), true
}

// since is the moment that many parts of a second after 1970 began.
func (t *texts) since(count, perSecond int64, local bool) (text string, ok bool) {
	seconds, part := count/perSecond, count%perSecond
	if part < 0 {
		seconds, part = seconds-1, part+perSecond
	}
	return t.timestamp(seconds, part*(1e9/perSecond), local)
}

const secondsOfDay = 24 * 60 * 60

// date is the date that many days after 1970-01-01.
func (t *texts) date(days int64) (text string, ok bool) {
	if days < firstTimestamp/secondsOfDay || days > lastTimestamp/secondsOfDay {
		return "", false
	}
	return t.keep(time.Unix(days*secondsOfDay, 0).UTC().AppendFormat(t.scratch[:0], time.DateOnly)), true
}

// clock is a time of day; perSecond and digits say what it is counted in.
func (t *texts) clock(count, perSecond int64, digits int) (text string, ok bool) {
	if count < 0 || count >= secondsOfDay*perSecond {
		return "", false
	}
	seconds := count / perSecond
	out := t.scratch[:0]
	for i, part := range [...]int64{seconds / 3600, seconds / 60 % 60, seconds % 60} {
		if i > 0 {
			out = append(out, ':')
		}
		out = append(out, byte('0'+part/10), byte('0'+part%10))
	}
	return t.keep(appendFraction(out, count%perSecond, digits)), true
}
