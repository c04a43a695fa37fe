package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/replay"
)

func newDLQ() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters, and try them again",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDLQList(), newDLQReplay())
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
	return cmd
}

// filterFlags choose dead letters.
type filterFlags struct {
	mappings, reasons, keys []string
	since, until            string
	topic, offsets          string
	partitions              []int32
}

func (f *filterFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.mappings, "mapping", nil, "only letters of these mappings")
	flags.StringSliceVar(&f.reasons, "reason", nil, "only letters with these reasons: decode, value, no_id, conflict, not_found, rejected, import_row")
	flags.StringVar(&f.since, "since", "", "only records of this time and later: 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h")
	flags.StringVar(&f.until, "until", "", "only records from before this time")
	flags.StringArrayVar(&f.keys, "key", nil, "only records with this Kafka key; may be given several times")
	flags.StringVar(&f.topic, "topic", "", "only records that came from this topic")
	flags.Int32SliceVar(&f.partitions, "partition", nil, "only records from these partitions of it")
	flags.StringVar(&f.offsets, "offset", "", "only records at this offset, or in a range of offsets such as 100-199")
}

// filter reads the flags; every error is one of usage.
func (f *filterFlags) filter(now time.Time) (replay.Filter, error) {
	out := replay.Filter{
		Mappings: f.mappings, Reasons: f.reasons, Keys: f.keys,
		Topic: f.topic, Partitions: f.partitions,
	}
	var errs []error
	var err error
	if out.Since, err = parseTime(f.since, now); err != nil {
		errs = append(errs, fmt.Errorf("--since: %w", err))
	}
	if out.Until, err = parseTime(f.until, now); err != nil {
		errs = append(errs, fmt.Errorf("--until: %w", err))
	}
	if out.Offsets, err = offsets(f.offsets); err != nil {
		errs = append(errs, fmt.Errorf("--offset: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return out, &usageError{err}
	}
	return out, nil
}

// parseTime reads a point in time or an age; "" is none.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(text); err == nil {
		return now.Add(-age), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a date, a time such as 2026-11-21T10:00:00Z, or an age such as 36h, is %q", text)
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
