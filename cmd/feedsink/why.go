package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/why"
)

func newWhy() *cobra.Command {
	var o ops.WhyOptions
	var businessKey, record, since, server string
	cmd := &cobra.Command{
		Use:   "why -c FILE --mapping NAME (KEY... | --profile-id ID | --record PLACE)",
		Short: "Tell of each record of a key where it is: confirmed, waiting for what, superseded, or a dead letter",
		Long: "why finds the records of a key in a mapping's topics, and tells of each what it would do, by which route and lane,\n" +
			"and where it is. KEY is what the table knows the row by: the value of the unique key, or the business key. It works\n" +
			"beside the running sink and without it, and changes nothing. What is not certain it calls unknown, and says why.\n" +
			"With receipts.topic it tells how and when each record ended, and by which execution. Values: with --show-value only.\n\n" +
			whyMeanings() +
			"\nIt exits with 1 if a key has no record.",
		Example: "  feedsink why -c feedsink.yaml --mapping orders 4c1f0c1e\n" +
			"  feedsink why -c feedsink.yaml --mapping customers --since 7d --show-value C000123\n" +
			"  feedsink why -c feedsink.yaml --mapping orders --record 'shop.orders[2]@1017' -o json",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Keys = args; businessKey != "" {
				o.Keys = append(o.Keys, businessKey)
			}
			if o.Record, err = recordPlace(record); err != nil {
				return err
			}
			asked := 0
			for _, given := range []bool{len(o.Keys) > 0, o.ProfileID != "", o.Record != nil} {
				if given {
					asked++
				}
			}
			switch {
			case asked != 1:
				return usagef("say which row: by its KEY, --profile-id or --record, and by one of them")
			case slices.Contains(o.Keys, ""):
				return usagef("KEY: must not be empty")
			}
			if o.Since, err = parseTime(since, time.Now()); err != nil {
				return usagef("--since: %w", err)
			}
			return runWhy(cmd, o, server)
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	mappingFlag(cmd, &o.Name)
	flags := cmd.Flags()
	flags.StringVar(&businessKey, "business-key", "", "of a custom table's record: the same as KEY")
	flags.StringVar(&o.ProfileID, "profile-id", "", "the service's id of the profile, where records have it")
	flags.StringVar(&record, "record", "", "one of the row's records, as TOPIC[PARTITION]@OFFSET: that of a dead letter on the page, for example")
	flags.StringVar(&since, "since", "", "only records of this time on: 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h or 7d (default: all)")
	flags.StringVar(&o.RecordKey, "record-key", "", "read only the partition to which Kafka's own producers send records with this key; give it if all records of the row have it")
	flags.BoolVar(&o.Values, "show-value", false, "also values, and what the service said about them: customers' data")
	flags.StringVar(&server, "server", "", "the admin server of the sink that is asked what its lanes wait for (default: the configuration's)")
	return cmd
}

func whyMeanings() string {
	var lines [][]string
	for _, m := range why.Meanings {
		lines = append(lines, []string{"  " + string(m.Verdict), m.Means})
	}
	return columns(lines) + "\n"
}

// recordPlace reads TOPIC[PARTITION]@OFFSET; "" is none.
func recordPlace(text string) (*why.Place, error) {
	if text == "" {
		return nil, nil
	}
	at, offset, _ := strings.Cut(text, "@")
	open := strings.LastIndexByte(at, '[')
	if open > 0 && strings.HasSuffix(at, "]") {
		partition, wrong := strconv.ParseUint(at[open+1:len(at)-1], 10, 31)
		n, err := strconv.ParseUint(offset, 10, 63)
		if err == nil && wrong == nil {
			return &why.Place{TopicPartition: cluster.TopicPartition{Topic: at[:open], Partition: int32(partition)}, Offset: int64(n)}, nil
		}
	}
	return nil, usagef("--record: must be TOPIC[PARTITION]@OFFSET, such as shop.orders[2]@1017, is %q", text)
}

// errNoRecord says that a key has no record, as the report does.
var errNoRecord = errors.New("no record was found")

func runWhy(cmd *cobra.Command, o ops.WhyOptions, server string) error {
	cfg, err := loadForPlan(cmd)
	if err != nil {
		return err
	}
	log, err := (&logFlags{level: "warn"}).open(cmd.ErrOrStderr(), cfg.Log)
	if err != nil {
		return asUsage(err)
	}
	defer log.Close()
	bar := newReading(cmd)
	defer bar.end()
	o.Log, o.Progress = log.Logger, bar.at
	o.Waits = func(ctx context.Context) ([]observe.Wait, error) { return sinkWaits(ctx, server, cfg.Admin) }
	report, err := ops.Why(cmd.Context(), cfg, o)
	bar.end()
	switch {
	case errors.Is(err, ops.ErrNoMapping):
		return asUsage(err)
	case err != nil:
		return err
	}
	if err := printResult(cmd, report, whyText(report)); err != nil {
		return err
	}
	if slices.ContainsFunc(report.Keys, func(k why.Key) bool { return len(k.Records) == 0 }) {
		return fmt.Errorf("%w of some key", errNoRecord)
	}
	return nil
}

// waitsTimeout is how long a sink is waited for: why does without it.
const waitsTimeout = 3 * time.Second

// sinkWaits asks the sink what its lanes wait for.
func sinkWaits(ctx context.Context, server string, cfg config.Admin) ([]observe.Wait, error) {
	if server == "" {
		var err error
		if server, err = listenedOn(cfg); err != nil {
			return nil, err
		}
	}
	client, err := configuredSink(server, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, waitsTimeout)
	defer cancel()
	var status struct {
		Waits []observe.Wait `json:"waits"`
	}
	err = client.Status(ctx, &status)
	return status.Waits, err
}

func whyText(r why.Report) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, note := range r.Notes {
		p("note: %s", note)
	}
	for i, k := range r.Keys {
		if len(r.Keys) > 1 {
			if i > 0 {
				p("")
			}
			p("%s:", oneLine(k.Key))
		}
		if len(k.Records) > 0 {
			p("%s", whyTable(k.Records))
		}
		p("%s", k.Answer)
	}
	return strings.TrimRight(b.String(), "\n")
}

// whyTable has a line for each record, and below it why it is where it is, and its values.
func whyTable(records []why.Record) string {
	lines := [][]string{{"RECORD", "TIME", "OP", "ROUTE", "LANE", "VERDICT", "REPLACED BY"}}
	for i := range records {
		r := &records[i]
		route, replaced := "", ""
		if r.Route != nil {
			route = strconv.Itoa(*r.Route)
		}
		if r.ReplacedBy != nil {
			replaced = "@" + strconv.FormatInt(*r.ReplacedBy, 10)
		}
		lines = append(lines, []string{r.String(), r.Time.Format(time.RFC3339), r.Op, route, r.Lane, string(r.Verdict), replaced})
	}
	table := strings.Split(aligned(lines), "\n")
	shown := []string{table[0]}
	for i := range records {
		r := &records[i]
		shown = append(shown, table[i+1])
		if len(r.Columns) > 0 && r.Values == nil {
			shown = append(shown, "  columns  "+oneLine(strings.Join(r.Columns, ", ")))
		}
		for _, name := range slices.Sorted(maps.Keys(r.Values)) {
			shown = append(shown, "  value    "+oneLine(name+" = "+string(r.Values[name])))
		}
		if r.ByRecordKey {
			shown = append(shown, "  row      named by the record's own key: the value names none, or cannot be read")
		}
		shown = append(shown, "  why      "+oneLine(r.Why))
		if r.Receipt != nil {
			shown = append(shown, "  receipt  "+oneLine(r.Receipt.String()))
		}
		if !r.Until.IsZero() {
			shown = append(shown, "  until    "+r.Until.Format(time.RFC3339))
		}
	}
	return strings.Join(shown, "\n")
}
