package ops

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/audit"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

// Audit gathers what audit judges by, from the topics and groups of the configuration, and has it
// judged. progress is told how many records there are, and how many of them have been read.
func Audit(ctx context.Context, cfg *config.Config, o audit.Options, progress func(read, of int64)) (*audit.Report, error) {
	schema, err := schemas.Files.ReadFile("receipt.avsc")
	if err != nil {
		return nil, err
	}
	brokers := build.KafkaConnection(cfg.Kafka, slog.New(slog.DiscardHandler))
	connection, err := brokers.Options()
	if err != nil {
		return nil, err
	}
	rt, err := first(check.Compile(cfg.Mappings))
	if err != nil {
		return nil, err
	}
	if err := brokers.Reach(ctx); err != nil {
		return nil, err
	}
	topics := map[string][]audit.Lane{}
	for i, lane := range schemas.Lanes {
		for _, topic := range rt.Topics(lane) {
			topics[topic] = append(topics[topic], audit.Lanes[i])
		}
	}
	o.Schema, o.Connector = string(schema), cfg.Kafka.Group
	evidence, closing, err := audit.Gather(ctx, audit.Source{
		Connection: connection, Group: cfg.Kafka.Group, Topics: topics, Receipts: cfg.Receipts.Topic, DeadLetters: cfg.DLQ.Topic, Progress: progress,
	})
	if err != nil {
		return nil, err
	}
	defer closing()
	report, err := audit.Run(ctx, evidence, o)
	if err == nil && cfg.Receipts.KeyFile == "" {
		report.Notes = append(report.Notes, "receipts have no key (receipts.keyFile): the order of a key's writes was not judged")
	}
	return report, err
}

// AuditTables is how the imports of each mapping's table are counted, in the ledger's names.
func AuditTables(cfg *config.Config) (map[string]audit.Table, error) {
	tables := map[string]audit.Table{}
	for i := range cfg.Mappings {
		m := &cfg.Mappings[i]
		zone, err := time.LoadLocation(m.Imports.Timezone)
		if err != nil {
			return nil, fmt.Errorf("mapping %s: imports.timezone: %w", m.Name, err)
		}
		name := "profile/" + m.ProfileTable
		if m.CustomTable != "" {
			name = "custom/" + m.CustomTable
		}
		tables[m.Name] = audit.Table{Name: name, Home: m.Topics[0], PerDay: m.Imports.SlotsPerDay, Zone: zone}
	}
	return tables, nil
}

// AuditText is the report for a terminal: package audit imports nothing of ours.
func AuditText(r *audit.Report) string {
	var ended, before, unsure, waiting int64
	table := words.Table{{"PARTITION", "COMMITTED", "JUDGED", "ENDED", "BEFORE", "WAITING"}}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for i := range r.Partitions {
		p := &r.Partitions[i]
		ended, before, unsure, waiting = ended+p.Ended, before+p.Before, unsure+p.Unsure, waiting+p.Waiting
		var committed []string
		for _, lane := range slices.Sorted(maps.Keys(p.Committed)) {
			committed = append(committed, fmt.Sprintf("%s %d", lane, p.Committed[lane]))
		}
		table.Add(fmt.Sprintf("%s[%d]", p.Topic, p.Partition), strings.Join(committed, ", "), judgedText(p), number(p.Ended), number(p.Before), number(p.Waiting))
	}
	var result words.Table
	result.Count("records", ended, " ended exactly once"+more(waiting, "not confirmed yet"))
	result.CountAny("not judged", before, ", which may have been confirmed before there were receipts; --from judges them, too")
	result.CountAny("not judged", unsure, ", which may have been on their way while routes changed")
	result.Count("receipts", r.Receipts, words.ByWord(r.Outcomes)+more(r.Repeated, "repeated after a crash or a move"))
	result.Count("dead letters", r.DeadLetters, "")
	result.Count("imports", r.Imports, "")
	result.Count("keys", r.Keys, "")
	if r.First() == nil {
		result.Add("gaps", "none")
	} else {
		result.Count("gaps", words.Sum(r.Kinds), words.ByWord(r.Kinds))
	}
	text := []string{table.String(), "", result.String()}
	for _, note := range r.Notes {
		text = append(text, "note: "+note)
	}
	return strings.Join(append(text, gapLines(r)...), "\n")
}

func judgedText(p *audit.Judged) string {
	switch {
	case p.From < 0:
		return "nothing"
	case p.Before > 0 && !p.Since.IsZero():
		return fmt.Sprintf("from %d, since %s", p.From, p.Since.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("from %d", p.From)
}

func more(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d %s", n, what)
}

// gapLines tells of the first gap, with what to do, and of some that follow.
func gapLines(r *audit.Report) []string {
	first := true
	return words.Few(r.Gaps, func(g audit.Gap) []string {
		if first {
			first = false
			return []string{"", fmt.Sprintf("The first gap: %s[%d] offset %d, %s", g.Topic, g.Partition, g.Offset, g.Kind), "  what  " + words.OneLine(g.What), "  do    " + g.Do}
		}
		return []string{fmt.Sprintf("%s[%d] offset %d, %s: %s", g.Topic, g.Partition, g.Offset, g.Kind, words.OneLine(g.What))}
	})
}
