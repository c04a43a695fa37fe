package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/verify"
)

func newVerify() *cobra.Command {
	var rate, server string
	o := ops.VerifyOptions{}
	logs := logFlags{}
	cmd := &cobra.Command{
		Use:   "verify -c FILE --mapping NAME",
		Short: "Does the table say what the topic says? Compare table records with the newest state of each key",
		Long: "verify reads the newest state of each key from the mapping's topics, reads the table records, and says what differs:\n" +
			"how many keys, in which fields, and by which record they should be. It compares the columns that the records name. Left\n" +
			"out are keys with a record that the sink had not confirmed when verify began, or that came meanwhile, and what is a dead\n" +
			"letter. It runs beside the sink or without it, changes nothing, and waits while the immediate lane has a backlog.\n" +
			"--sample compares some keys, chosen by chance, and says what share of all differs at most. --repair sends the newest\n" +
			"states of the keys that differ again, as backfill does, never an older value over a newer one.\n" +
			"Profiles cannot be read: of them it says what is known, open dead letters and what is not confirmed.\n" +
			"It exits with 1 if something differs or could not be read; with --repair, if that was not all sent again.",
		Example: "  feedsink verify -c feedsink.yaml --mapping orders --sample 3000\n" +
			"  feedsink verify -c feedsink.yaml --mapping orders --rate 60/m --repair",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Rate, err = parseRate(rate); err != nil {
				return err
			}
			switch {
			case o.Sample < 0:
				return usagef("--sample: must not be negative, is %d", o.Sample)
			case o.Sample > 0 && o.Repair:
				return usagef("--repair: compares all keys, so that it goes without --sample")
			case o.GiveUp <= 0:
				return usagef("--give-up: must be above 0")
			}
			return runVerify(cmd, &logs, server, o)
		},
	}
	configFlag(cmd)
	mappingFlag(cmd, &o.Name)
	outputFlag(cmd)
	logs.register(cmd)
	flags := cmd.Flags()
	logs.level = "warn" // progress and report say the rest
	flags.Lookup("log-level").DefValue = logs.level
	flags.IntVar(&o.Sample, "sample", 0, "compare so many keys, chosen by chance; 0: all")
	flags.StringVar(&rate, "rate", "", "the most table records to read, such as 20/m, at most service.rate (default: a tenth of service.rate; 10/s without one)")
	flags.BoolVar(&o.Repair, "repair", false, "send the newest states of the keys that differ again")
	flags.BoolVar(&o.ShowValues, "show-value", false, "also keys and values: customers' data")
	flags.DurationVar(&o.GiveUp, "give-up", time.Minute, "stop when the service did not answer for so long")
	flags.StringVar(&server, "server", "", "of profiles: the admin server of a running sink, which is asked for today's imports")
	return cmd
}

func runVerify(cmd *cobra.Command, logs *logFlags, server string, o ops.VerifyOptions) error {
	cfg, log, err := logs.with(configFile(cmd), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer log.Close()
	o.Log = log.Logger
	watch := newBackfillProgress(cmd.ErrOrStderr())
	o.Tell = watch.verified
	report, err := ops.Verify(cmd.Context(), cfg, o)
	watch.end()
	if errors.Is(err, ops.ErrNoMapping) || errors.Is(err, ops.ErrRate) {
		return asUsage(err)
	}
	if err == nil && report.Known != nil && server != "" {
		sink, err := configuredSink(server, cfg.Admin)
		if err != nil {
			return err
		}
		var status observe.Status
		if err := sink.Status(cmd.Context(), &status); err != nil {
			return explained(err, server)
		}
		report.Known.Imports = importsOf(&status, report.Mapping)
	}
	if report.Mapping != "" && !errors.Is(err, verify.ErrNothing) {
		err = errors.Join(printResult(cmd, report, verifyText(report)), err)
	}
	switch {
	case errors.Is(err, context.Canceled) && report.Readable:
		return fmt.Errorf("%w; the keys that were compared until then are in the report", err)
	case err != nil:
		return err
	case report.Repaired():
		return nil
	case !report.Equal() && report.Known != nil:
		return errors.New("open dead letters of the mapping are not in the table")
	case !report.Equal():
		return errors.New("the table does not say what the topic says, as far as it is known")
	}
	return nil
}

func importsOf(s *observe.Status, mapping string) []observe.EndedImport {
	for _, m := range s.Mappings {
		if m.Name == mapping && m.Day != nil {
			return m.Day.Imports
		}
	}
	return []observe.EndedImport{}
}

func verifyText(r verify.Report) string {
	lines := [][]string{{"mapping", fmt.Sprintf("%s, table %s", r.Mapping, r.Table)}}
	if len(r.Writers) > 0 {
		lines = append(lines, []string{"also written by", "mapping " + strings.Join(r.Writers, ", ") + ": what differs may be theirs"})
	}
	if r.Known != nil {
		return aligned(append(lines, knownLines(r.Known)...))
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	lines = append(lines, []string{"records", number(r.Records) + ", confirmed by the sink"})
	if r.DeadLetters > 0 {
		lines = append(lines, []string{"dead letters", number(r.DeadLetters) + ", which never came to the table and count as not there"})
	}
	if r.NoKey > 0 {
		lines = append(lines, []string{"without a key", number(r.NoKey) + ", whose rows cannot be told"})
	}
	about := ""
	if r.About {
		about = "about "
	}
	lines = append(lines, []string{"keys", about + number(r.Keys)})
	if r.Newer > 0 {
		lines = append(lines, []string{"left out", number(r.Newer) + " with a newer record, not confirmed before or come meanwhile"})
	}
	if n := sum(r.Unread); n > 0 {
		lines = append(lines, []string{"not read", number(n) + reasons64(r.Unread) + ": the service does not show them"})
	}
	lines = append(lines, []string{"equal", equalText(r)})
	if r.Missing > 0 {
		lines = append(lines, []string{verify.Missing, number(r.Missing)})
	}
	if r.NotDeleted > 0 {
		lines = append(lines, []string{verify.NotDeleted, number(r.NotDeleted)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		lines = append(lines, []string{"differ in " + name, number(r.Fields[name])})
	}
	if r.Repair != nil {
		lines = append(lines, []string{"repair", repairText(r)})
	}
	return strings.Join(slices.Concat([]string{aligned(lines)}, r.Gone, differenceLines(r.Differences)), "\n")
}

// equalText is the result in one line.
func equalText(r verify.Report) string {
	text := fmt.Sprintf("%d of %d", r.Compared-r.Different, r.Compared)
	switch {
	case r.All && r.Different == 0:
		return text + ": the table says what the topic says"
	case r.All:
		return fmt.Sprintf("%s: %d differ", text, r.Different)
	case r.Compared == 0:
		return text + ": nothing is known"
	}
	if r.Different > 0 {
		text += fmt.Sprintf(", %d differ", r.Different)
	}
	return text + fmt.Sprintf(": at most %s of all keys differ (95 %% confidence)", percent(r.AtMost))
}

// percent writes a share above 0 with two digits, rounded up: it is a bound.
func percent(share float64) string {
	digits := 1 - int(math.Floor(math.Log10(100*share)))
	unit := math.Pow10(-digits)
	text := strconv.FormatFloat(math.Ceil(100*share/unit)*unit, 'f', max(digits, 1), 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " %"
}

func differenceLines(all []verify.Difference) (lines []string) {
	for i, d := range all {
		if i == shownNotes {
			return append(lines, "… and more: -o json has up to 1000 of them")
		}
		line := "the key of " + d.Record + ": " + d.Why
		if len(d.Fields) > 0 {
			line += " in " + strings.Join(d.Fields, ", ")
		}
		lines = append(lines, line)
		if d.Key == "" {
			continue
		}
		lines = append(lines, "  key   "+oneLine(d.Key))
		for _, name := range d.Fields {
			lines = append(lines, fmt.Sprintf("  %s: should be %s, is %s", name, d.Want[name], cmp.Or(string(d.Have[name]), "not there")))
		}
	}
	return lines
}

func repairText(r verify.Report) string {
	parts := []string{fmt.Sprintf("%d sent again", r.Repair.Sent)}
	for _, of := range []struct {
		n    int64
		what string
	}{
		{r.Repair.Newer, "newer since, which the sink sends"},
		{sum(r.Repair.Refused), "refused" + reasons64(r.Repair.Refused)},
		{sum(r.Repair.Left), "left" + reasons64(r.Repair.Left)},
		{max(r.Different-verify.MaxRepair, 0), "not tried: run again, or backfill the whole table"},
	} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	return strings.Join(parts, "; ")
}

func knownLines(k *verify.Known) [][]string {
	lines := [][]string{
		{"compared", "nothing: the interface has no operation that reads a profile. This is what is known:"},
		{"dead letters", strconv.FormatInt(sum(k.DeadLetters), 10) + reasons64(k.DeadLetters) + ", open: they are not in the table"},
	}
	for _, lane := range slices.Sorted(maps.Keys(k.Unconfirmed)) {
		lines = append(lines, []string{"not confirmed", fmt.Sprintf("%d by the %s lane: on their way", k.Unconfirmed[lane], lane)})
	}
	for _, i := range k.Imports {
		text := fmt.Sprintf("%s %s, %s", i.File, i.Status, counted(i.Rows, "row"))
		if i.InError != nil {
			text += fmt.Sprintf(", %d in error", *i.InError)
		}
		lines = append(lines, []string{"import", text})
	}
	return append(lines, []string{"unknown", "whether the confirmed records are still in the table as they were written, and what others have changed"})
}
