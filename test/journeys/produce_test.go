package journeys

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produce sends the records of its lines in their order.
func (s *story) produce(d *datadriven.TestData) string {
	var records []*kgo.Record
	for line := range strings.Lines(d.Input) {
		if words := strings.Fields(line); len(words) > 0 {
			records = append(records, s.record(words))
		}
	}
	s.check(s.client.ProduceSync(s.t.Context(), records...).FirstErr())
	for _, r := range records {
		s.sent[where(r.Topic, r.Partition, r.Offset)] = r
	}
	return ""
}

// record makes a record of TOPIC key=K … . With at=90s its time is so long after noon of yesterday.
func (s *story) record(words []string) *kgo.Record {
	fields := map[string]string{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		fields[name] = value
	}
	take := func(name string) (string, bool) {
		value, given := fields[name]
		delete(fields, name)
		return value, given
	}
	key, _ := take("key")
	r := &kgo.Record{Topic: words[0], Key: []byte(key), Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte{0, 255}}}}
	if after, given := take("at"); given {
		past, err := time.ParseDuration(after)
		s.check(err)
		r.Timestamp = time.Now().UTC().Truncate(24 * time.Hour).Add(past - 12*time.Hour)
	}
	if _, tombstone := take("tombstone"); tombstone {
		return r
	}
	if raw, given := take("raw"); given {
		r.Value = []byte(raw)
		return r
	}
	event := map[string]any{}
	if op, given := take("op"); given {
		event["op"] = op
	}
	if length, given := take("name-length"); given {
		n, err := strconv.Atoi(length)
		s.check(err)
		fields["name"] = strings.Repeat("é", n)
	}
	values := map[string]any{}
	switch r.Topic {
	case "customers":
		if id, given := take("id"); given {
			event["profileId"] = id
		}
		event["key"] = map[string]any{"customerNumber": key}
		if tier, given := take("tier"); given {
			event["segments"] = map[string]any{"tier": tier}
		}
		event["attributes"] = values
	case "orders":
		event["businessKey"], event["properties"] = key, values
	}
	for name, value := range fields {
		values[name] = value
		if name == "seq" {
			values[name] = json.Number(value)
		}
	}
	var err error
	r.Value, err = json.Marshal(event)
	s.check(err)
	return r
}
