package schemas

// moment is what an integer of the kind says: a number, or the date or time
// that the schema's logical type makes of it. One that is outside the range of
// dates stays a number.
func (r *avroReader) moment(kind avroKind, i int64) (Kind, string) {
	text, ok := "", false
	switch kind {
	case avroDate:
		text, ok = r.text.date(i)
	case avroTimeMillis:
		text, ok = r.text.clock(i, 1e3, 3)
	case avroTimeMicros:
		text, ok = r.text.clock(i, 1e6, 6)
	case avroTimeNanos:
		text, ok = r.text.clock(i, 1e9, 9)
	case avroTimestampMillis, avroLocalMillis:
		text, ok = r.text.since(i, 1e3, kind == avroLocalMillis)
	case avroTimestampMicros, avroLocalMicros:
		text, ok = r.text.since(i, 1e6, kind == avroLocalMicros)
	case avroTimestampNanos, avroLocalNanos:
		text, ok = r.text.since(i, 1e9, kind == avroLocalNanos)
	}
	if ok {
		return String, text
	}
	return Number, r.text.integer(i)
}
