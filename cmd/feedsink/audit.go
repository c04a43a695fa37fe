package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/audit"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/schemas"
)

// allRecords is the word for --from that has all records judged.
const allRecords = "begin"

func newAudit() *cobra.Command {
	var from, dir string
	cmd := &cobra.Command{
		Use:   "audit -c FILE",
		Short: "Did each record below the commits end exactly once? By receipts, dead letters and the ledger alone",
		Long: "audit compares four things, in all topics of the mappings and in both lanes: what the groups have committed, with the\n" +
			"ledger in it; the receipts; the dead letters; and the offsets that the topics have. Each record that is confirmed must\n" +
			"have ended exactly once, with a receipt for each of its parts; what receipts and ledger tell of keys' order and of the\n" +
			"day's imports must hold. It shares no code with what it judges, runs beside the sink or without it, and changes nothing.\n" +
			"It names the first gap, what is missing and what to do.\n\n" +
			"A record that was confirmed before there were receipts has none. So these are judged: all records of a partition whose\n" +
			"lanes began when there were receipts already, and elsewhere those that were written after the first assignment that has\n" +
			"receipts. --from TIME judges those that were written since then instead, --from begin all.\n\n" +
			"It needs receipts.topic. Without receipts.keyFile receipts have no key, and the order is not judged. It reads the\n" +
			"receipts and every record of the topics once, and looks at no value. What memory has no room for is sorted in files\n" +
			"below --dir: some 200 bytes for each receipt.\n" +
			"It exits with 1 if there is a gap.",
		Example: "  feedsink audit -c feedsink.yaml\n" +
			"  feedsink audit -c feedsink.yaml --from 2026-11-21T10:00:00Z -o json",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o := audit.Options{All: from == allRecords, Dir: dir}
			if !o.All {
				if o.From, err = parseTime(from, time.Now()); err != nil {
					return usagef("--from: %w, or %s", err, allRecords)
				}
			}
			return runAudit(cmd, o, from)
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "judge the records of this time on: begin, 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h or 7d (default: since receipts began)")
	cmd.Flags().StringVar(&dir, "dir", "", "where to sort what memory has no room for (default: the system's directory for temporary files)")
	return cmd
}

func runAudit(cmd *cobra.Command, o audit.Options, asked string) error {
	cfg, err := loadForPlan(cmd)
	if err != nil {
		return err
	}
	if cfg.Receipts.Topic == "" {
		return usagef("receipts.topic: is not set, so that nothing says how records ended; set it, for example\n" +
			"  receipts: {topic: feedsink.receipts, keyFile: /run/secrets/receipts-key}\n" +
			"and restart the sink: what ends from then on has receipts, and can be judged")
	}
	schema, err := schemas.Files.ReadFile("receipt.avsc")
	if err != nil {
		return err
	}
	connection, err := build.KafkaConnection(cfg.Kafka, slog.New(slog.DiscardHandler)).Options()
	if err != nil {
		return err
	}
	if o.Tables, err = auditTables(cfg); err != nil {
		return err
	}
	o.Schema, o.Connector = string(schema), cfg.Kafka.Group
	bar := newReading(cmd)
	defer bar.end()
	evidence, closing, err := audit.Gather(cmd.Context(), audit.Source{
		Connection: connection, Group: cfg.Kafka.Group, Topics: topicsOf(cfg), Receipts: cfg.Receipts.Topic, DeadLetters: cfg.DLQ.Topic, Progress: bar.at,
	})
	if err != nil {
		return err
	}
	defer closing()
	report, err := audit.Run(cmd.Context(), evidence, o)
	bar.end()
	if err != nil {
		return err
	}
	report.From = asked
	if cfg.Receipts.KeyFile == "" {
		report.Notes = append(report.Notes, "receipts have no key (receipts.keyFile): the order of a key's writes was not judged")
	}
	if err := printResult(cmd, report, auditText(report)); err != nil {
		return err
	}
	if report.First() != nil {
		return errors.New("there are gaps")
	}
	return nil
}

func topicsOf(cfg *config.Config) (topics []string) {
	for i := range cfg.Mappings {
		topics = append(topics, cfg.Mappings[i].Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// auditTables is how the imports of each mapping's table are counted, in the ledger's names.
func auditTables(cfg *config.Config) (map[string]audit.Table, error) {
	tables := map[string]audit.Table{}
	for i := range cfg.Mappings {
		m := &cfg.Mappings[i]
		zone, err := time.LoadLocation(m.Imports.Timezone)
		if err != nil {
			return nil, usagef("mapping %s: imports.timezone: %w", m.Name, err)
		}
		name := "profile/" + m.ProfileTable
		if m.CustomTable != "" {
			name = "custom/" + m.CustomTable
		}
		tables[m.Name] = audit.Table{Name: name, Home: m.Topics[0], PerDay: m.Imports.SlotsPerDay, Zone: zone}
	}
	return tables, nil
}

func auditText(r *audit.Report) string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	var ended, before, unsure, waiting int64
	lines := [][]string{{"PARTITION", "COMMITTED", "JUDGED", "ENDED", "BEFORE", "WAITING"}}
	for i := range r.Partitions {
		p := &r.Partitions[i]
		ended, before, unsure, waiting = ended+p.Ended, before+p.Before, unsure+p.Unsure, waiting+p.Waiting
		var committed []string
		for _, lane := range slices.Sorted(maps.Keys(p.Committed)) {
			committed = append(committed, fmt.Sprintf("%s %d", lane, p.Committed[lane]))
		}
		lines = append(lines, []string{
			fmt.Sprintf("%s[%d]", p.Topic, p.Partition), strings.Join(committed, ", "), judgedText(p), number(p.Ended), number(p.Before), number(p.Waiting),
		})
	}
	result := [][]string{{"records", number(ended) + " ended exactly once" + more(waiting, "not confirmed yet")}}
	if before > 0 {
		result = append(result, []string{"not judged", number(before) + ", which may have been confirmed before there were receipts; --from judges them, too"})
	}
	if unsure > 0 {
		result = append(result, []string{"not judged", number(unsure) + ", which may have been on their way while routes changed"})
	}
	result = append(result, []string{"receipts", number(r.Receipts) + reasons64(r.Outcomes) + more(r.Repeated, "repeated after a crash or a move")},
		[]string{"dead letters", number(r.DeadLetters)}, []string{"imports", number(r.Imports)}, []string{"keys", number(r.Keys)})
	if r.First() == nil {
		result = append(result, []string{"gaps", "none"})
	} else {
		result = append(result, []string{"gaps", number(sum(r.Kinds)) + reasons64(r.Kinds)})
	}
	text := []string{aligned(lines), "", aligned(result)}
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
func gapLines(r *audit.Report) (lines []string) {
	for i := range r.Gaps {
		g := &r.Gaps[i]
		switch i {
		case 0:
			lines = append(lines, "", fmt.Sprintf("The first gap: %s[%d] offset %d, %s", g.Topic, g.Partition, g.Offset, g.Kind), "  what  "+oneLine(g.What), "  do    "+g.Do)
		case shownNotes:
			return append(lines, "… and more: -o json has up to 1000 of them")
		default:
			lines = append(lines, fmt.Sprintf("%s[%d] offset %d, %s: %s", g.Topic, g.Partition, g.Offset, g.Kind, oneLine(g.What)))
		}
	}
	return lines
}
