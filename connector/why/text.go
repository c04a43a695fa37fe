package why

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/words"
)

// ParsePlace reads TOPIC[PARTITION]@OFFSET.
func ParsePlace(text string) (at cluster.RecordPlace, ok bool) {
	topic, offset, _ := strings.Cut(text, "@")
	open := strings.LastIndexByte(topic, '[')
	if open <= 0 || !strings.HasSuffix(topic, "]") {
		return at, false
	}
	partition, wrong := strconv.ParseUint(topic[open+1:len(topic)-1], 10, 31)
	n, err := strconv.ParseUint(offset, 10, 63)
	at = cluster.RecordPlace{TopicPartition: cluster.TopicPartition{Topic: topic[:open], Partition: int32(partition)}, Offset: int64(n)}
	return at, err == nil && wrong == nil
}

// Text is the report for a terminal.
func (r *Report) Text() string {
	var text words.Lines
	for _, note := range r.Notes {
		text.Add("note: %s", note)
	}
	for i, k := range r.Keys {
		if len(r.Keys) > 1 {
			if i > 0 {
				text.Add("")
			}
			text.Add("%s:", words.OneLine(k.Key))
		}
		if len(k.Records) > 0 {
			text.Add("%s", tableOf(k.Records))
		}
		text.Add("%s", k.Answer)
	}
	return text.Text()
}

// tableOf has a line for each record, and below it why it is where it is, and its values.
func tableOf(records []Record) string {
	table := words.Table{{"RECORD", "TIME", "OP", "ROUTE", "LANE", "VERDICT", "REPLACED BY"}}
	below := make([][]string, len(records))
	for i := range records {
		r := &records[i]
		route, replaced := "", ""
		if r.Route != nil {
			route = strconv.Itoa(*r.Route)
		}
		if r.ReplacedBy != nil {
			replaced = "@" + strconv.FormatInt(*r.ReplacedBy, 10)
		}
		table.Add(r.String(), r.Time.Format(time.RFC3339), r.Op, route, r.Lane, string(r.Verdict), replaced)
		below[i] = r.below()
	}
	return table.Over(below)
}

// below is what stands below a record's line.
func (r *Record) below() (lines []string) {
	if len(r.Columns) > 0 && r.Values == nil {
		lines = append(lines, "  columns  "+words.OneLine(strings.Join(r.Columns, ", ")))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		lines = append(lines, "  value    "+words.OneLine(name+" = "+string(r.Values[name])))
	}
	if r.ByRecordKey {
		lines = append(lines, "  row      named by the record's own key: the value names none, or cannot be read")
	}
	lines = append(lines, "  why      "+words.OneLine(r.Why))
	if r.Receipt != nil {
		lines = append(lines, "  receipt  "+words.OneLine(r.Receipt.String()))
	}
	if !r.Until.IsZero() {
		lines = append(lines, "  until    "+r.Until.Format(time.RFC3339))
	}
	return lines
}
