package setup

import (
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// keyOf guesses the field that names a row: one whose text is the Kafka key of every
// record; one that is named after what the records are of, where the topic holds records
// of several tables, which are called tables; one that every row has and no two share; and
// at last one whose name speaks of a key.
func keyOf(fields []*field, rows []Record, stem string, tables []string) (key *field, why string) {
	inAll := func(f *field) bool {
		return f.seen == len(rows) && f.identifies()
	}
	named, keyed := -1, -1
	for i, f := range fields {
		if named < 0 && stem != "" && inAll(f) && keyLike(f.last()) == 2 && namedAfter(f, stem) {
			named = i
		}
		if (keyed < 0 || i == named) && f.isKafkaKey(rows) {
			keyed = i
		}
	}
	switch {
	case keyed >= 0 && (named < 0 || named == keyed || !fields[named].divides(fields[keyed], rows, stem, tables)):
		return fields[keyed], "its value is the Kafka key of every record that was looked at"
	case keyed >= 0:
		return fields[named], fmt.Sprintf("each record has it and it is named after %s; the Kafka key is %s", stem, quoted(fields[keyed].path))
	case named >= 0:
		return fields[named], "each record has it and it is named after " + stem
	}
	var best, most *field
	distinct := 0
	for _, f := range fields {
		if !inAll(f) || len(rows) < 2 {
			continue
		}
		texts := f.texts()
		like := keyLike(f.last())
		if len(texts) == len(rows) && !texts[""] && (best == nil || like > keyLike(best.last())) {
			best = f
		}
		if like == 2 && len(texts) > distinct && !texts[""] {
			most, distinct = f, len(texts)
		}
	}
	switch {
	case best != nil && (most == nil || keyLike(best.last()) == 2):
		return best, "no two records that were looked at share its value"
	case most != nil:
		return most, fmt.Sprintf("each record has it and its name speaks of a key; %d of %d have a value of their own", distinct, len(rows))
	}
	for _, f := range fields {
		if f.identifies() {
			return f, "nothing tells which field is the key: this is merely the first"
		}
	}
	return nil, ""
}

// isKafkaKey reports whether every row has the field and its text is the record's key.
func (f *field) isKafkaKey(rows []Record) bool {
	if f.seen != len(rows) || !f.identifies() {
		return false
	}
	for i, v := range f.values {
		if string(rows[i].Key) != v.Text() {
			return false
		}
	}
	return true
}

// divides reports whether the rows with one Kafka key are several of the table, as the orders
// of a customer are: each value of the field has one Kafka key, and some have the same one, or
// the field that is the Kafka key is named after something else.
func (f *field) divides(keyed *field, rows []Record, stem string, tables []string) bool {
	keys, distinct := map[string]string{}, map[string]bool{}
	for i, v := range f.values {
		key := string(rows[i].Key)
		if known, ok := keys[v.Text()]; ok && known != key {
			return false
		}
		keys[v.Text()], distinct[key] = key, true
	}
	return len(distinct) < len(keys) || slices.ContainsFunc(slices.Concat(tables, others), func(other string) bool {
		return singular(other) != singular(stem) && namedAfter(keyed, other)
	})
}

// namedAfter holds for orderId, order_no and order.id, of order.
func namedAfter(f *field, stem string) bool {
	last := wordsOf(f.last())
	if len(last) > 1 {
		return singular(last[0]) == singular(stem)
	}
	if len(f.names) > 1 {
		object := wordsOf(f.names[len(f.names)-2])
		return len(object) > 0 && singular(object[len(object)-1]) == singular(stem)
	}
	return false
}

// numbers reports whether some of the values are numbers.
func (f *field) numbers() bool {
	return slices.ContainsFunc(f.values, func(v schemas.Value) bool { return v.Kind() == schemas.Number })
}

// identifies reports whether each value could be a key.
func (f *field) identifies() bool {
	return f.all(func(v schemas.Value) bool { return v.Kind() == schemas.String || v.IsWhole() })
}
