package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/router/problem"
)

func newDLQList() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list -c FILE",
		Short: "List dead letters with their reasons, or count them",
		Long: "list reads the dead-letter topic up to its end and shows where each letter's record came from and why it\n" +
			"could not be processed. What may be customers' data, keys, values and the service's own words about them, it\n" +
			"shows with --show-value only. Letters that were replayed or discarded are left out unless --all is given. Under\n" +
			"ENDED BY it names the dlq command, with its flags, that ends a letter with the present configuration: what this\n" +
			"configuration would refuse again is replayed once the configuration is fixed, or discarded. It changes nothing.",
		Example: "  feedsink dlq list -c feedsink.yaml --by mapping,reason\n" +
			"  feedsink dlq list -c feedsink.yaml --reason conflict --since 24h --show-value",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	configFlag(cmd)
	outputFlag(cmd)
	f.filter.register(cmd, "reason")
	flags := cmd.Flags()
	flags.StringSliceVar(&f.by, "by", nil, "count instead of listing, by one or more of: "+strings.Join(deadletter.CountNames(), ", "))
	flags.IntVar(&f.limit, "limit", 100, "list so many letters at most; 0: all")
	flags.BoolVar(&f.all, "all", false, "also letters that were replayed or discarded")
	flags.BoolVar(&f.values, "show-value", false, "also keys, values and what the service said: customers' data")
	return cmd
}

type listFlags struct {
	by          []string
	limit       int
	all, values bool
	filter      filterFlags
}

func (f *listFlags) run(cmd *cobra.Command) error {
	match, err := f.filter.filter(time.Now())
	if err != nil {
		return err
	}
	if f.limit < 0 {
		return usagef("--limit: must not be negative, is %d", f.limit)
	}
	counts, err := deadletter.NewCounts(f.by)
	if err != nil {
		return asUsage(err)
	}
	cfg, log, err := quiet.with(cmd, config.File.Config)
	if err != nil {
		return err
	}
	defer log.Close()
	bar := newReading(cmd)
	defer bar.end()
	list := &deadletter.List{To: bar.above(cmd.OutOrStdout()), JSON: wantsJSON(cmd), Limit: f.limit, Values: f.values}
	o := ops.ListOptions{Match: match.Match, All: f.all, Progress: bar.at, Log: log.Logger}
	foreign, err := ops.ListDeadLetters(cmd.Context(), cfg, o, list, counts)
	bar.end()
	switch {
	case errors.Is(err, ops.ErrNoDeadLetters):
		return asUsage(err)
	case err != nil:
		return err
	case counts != nil:
		groups := counts.Groups()
		return printResult(cmd, groups, counts.Text(groups))
	}
	return list.End(foreign)
}

func newDLQ() *cobra.Command {
	return newGroup("dlq", "Look at dead letters, try them again, or discard them",
		newDLQList(), newDLQReplay(), newDLQDiscard())
}

type filterFlags struct {
	replay.Filter
	since, until, offsets string
	reason                string // the flag for reason codes
}

// reasonCodes are the codes of dead letters.
var reasonCodes = []string{"decode", "value", "no_id", "conflict", "not_found", "rejected", "import_row"}

// register adds the flags; reason is the name of the one for reason codes.
func (f *filterFlags) register(cmd *cobra.Command, reason string) {
	f.reason = reason
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Mappings, "mapping", nil, "only letters of these mappings")
	flags.StringSliceVar(&f.Reasons, reason, nil, "only letters with these reasons: "+strings.Join(reasonCodes, ", "))
	flags.StringVar(&f.since, "since", "", "only records of this time and later: 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h")
	flags.StringVar(&f.until, "until", "", "only records from before this time")
	flags.StringArrayVar(&f.Keys, "key", nil, "only records with this Kafka key; may be given several times")
	flags.StringVar(&f.Topic, "topic", "", "only records that came from this topic")
	flags.Int32SliceVar(&f.Partitions, "partition", nil, "only records from these partitions of it")
	flags.Lookup("partition").DefValue = "" // help would show it as []
	flags.StringVar(&f.offsets, "offset", "", "only records at this offset, or in a range of offsets such as 100-199")
}

// filter reads the flags; every error is one of usage.
func (f *filterFlags) filter(now time.Time) (replay.Filter, error) {
	var errs []error
	note := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	for _, code := range f.Reasons {
		if !slices.Contains(reasonCodes, code) {
			errs = append(errs, unknownReason(f.reason, code))
		}
	}
	var err error
	f.Since, err = parseTime(f.since, now)
	note("--since", err)
	f.Until, err = parseTime(f.until, now)
	note("--until", err)
	f.Offsets, err = offsets(f.offsets)
	note("--offset", err)
	return f.Filter, asUsage(errors.Join(errs...))
}

// unknownReason refuses a code that no letter can have. A misspelt one would find no
// letter, as if there were none.
func unknownReason(flag, code string) error {
	hint := ""
	if similar := problem.Similar(code, reasonCodes...); similar != "" {
		hint = "; " + similar
	}
	return fmt.Errorf("--%s: must be some of %s, is %q%s", flag, strings.Join(reasonCodes, ", "), code, hint)
}

// parseTime reads a point in time or an age; "" is none.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(text); err == nil {
		return now.Add(-age), nil
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.ParseUint(number, 10, 16); err == nil {
			return now.Add(-time.Duration(days) * 24 * time.Hour), nil
		}
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a date, a time such as 2026-11-21T10:00:00Z, or an age such as 36h or 7d, is %q", text)
}

// offsets reads N or N-M; "" is none.
func offsets(text string) (*replay.Offsets, error) {
	if text == "" {
		return nil, nil
	}
	low, high, isRange := strings.Cut(text, "-")
	first, err := strconv.ParseInt(low, 10, 64)
	last := first
	if isRange && err == nil {
		last, err = strconv.ParseInt(high, 10, 64)
	}
	if err != nil || first < 0 || last < first {
		return nil, fmt.Errorf("must be an offset, or a range such as 100-199, is %q", text)
	}
	return &replay.Offsets{First: first, Last: last}, nil
}
