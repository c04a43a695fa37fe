package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
)

func newDLQReplay() *cobra.Command {
	var rate string
	var filter filterFlags
	var logs logFlags
	o := ops.ReplayOptions{}
	cmd := &cobra.Command{
		Use:   "replay -c FILE",
		Short: "Try dead letters again, never an older value over a newer one",
		Long: "replay sends what dead letters say to the service, by calls, while the sink goes on running. A letter whose\n" +
			"values were all replaced by newer records since is done without a call. What fails again becomes a new letter\n" +
			"that counts its attempts. Which letters are done is kept in Kafka: interrupt it and run it again as you like.\n" +
			"If nearly all letters of a mapping are refused alike (dlq.flood), it stops and leaves them as they are.\n" +
			"It exits with 1 if some letter was neither applied nor superseded.",
		Example: "  feedsink dlq replay -c feedsink.yaml --mapping customers --reason value --dry-run\n" +
			"  feedsink dlq replay -c feedsink.yaml --mapping customers --reason value --rate 20/s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Filter, err = filter.filter(time.Now()); err != nil {
				return err
			}
			if o.Rate, err = parseRate(rate); err != nil {
				return err
			}
			if o.MaxAttempts < 1 || o.GiveUp <= 0 {
				return usagef("--max-attempts and --give-up: must be above 0")
			}
			cfg, log, err := logs.with(configFile(cmd), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer log.Close()
			o.Log = log.Logger
			end := showReplay(cmd, &o)
			report, err := ops.Replay(cmd.Context(), cfg, o)
			end()
			if errors.Is(err, ops.ErrNoDeadLetters) {
				return asUsage(err)
			}
			if err := errors.Join(printResult(cmd, report, replayText(report)), err); err != nil {
				return err
			}
			if !o.DryRun && !report.Ended() {
				return errors.New("some letters were neither applied nor superseded")
			}
			return nil
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	filter.register(cmd, "reason")
	logs.register(cmd)
	flags := cmd.Flags()
	logs.level = "warn" // progress and report say the rest
	flags.Lookup("log-level").DefValue = logs.level
	flags.BoolVar(&o.DryRun, "dry-run", false, "only find out what would become of each letter")
	flags.StringVar(&rate, "rate", "", "the most calls to make, such as 20/s or 600/m (default: service.rate)")
	flags.IntVar(&o.MaxAttempts, "max-attempts", ops.MaxAttempts, "leave dead letters that have failed again so many times")
	flags.DurationVar(&o.GiveUp, "give-up", time.Minute, "stop when no call was answered for so long")
	flags.BoolVar(&o.AsCalls, "as-calls", false, "also replay mappings that write profiles by imports only: a call replaces the profile whole")
	flags.BoolVar(&o.AssumeNewest, "assume-newest", false, "also replay letters whose topic no longer tells whether something newer followed")
	return cmd
}

// parseRate reads N/s, N/m or N/h; "" is none.
func parseRate(text string) (rate config.Rate, err error) {
	if text == "" {
		return rate, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	per, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.Atoi(number)
	if err != nil || !known || n < 1 || n > math.MaxInt32 {
		return rate, usagef("--rate: must be calls per second, minute or hour such as 20/s, is %q", text)
	}
	return config.Rate{Calls: n, Per: per}, nil
}

// showReplay shows how far a replay is, where it is watched, until end is called.
func showReplay(cmd *cobra.Command, o *ops.ReplayOptions) (end func()) {
	if !watched(cmd) {
		return func() {}
	}
	screen := newScreen(cmd.ErrOrStderr())
	o.Progress = func(r replay.Report) { screen.line(progressText(r)) }
	return screen.end
}

func progressText(r replay.Report) string {
	return fmt.Sprintf("%s: %d applied, %d superseded, %d failed again, %d left",
		counted(r.Selected, "letter"), r.Applied, r.Superseded, total(r.Refused), total(r.Left))
}

func total(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// shownNotes is how many dead letters are explained one by one.
const shownNotes = 20

// replayText has a line for each outcome, and below them why dead letters were not
// applied.
func replayText(r replay.Report) string {
	words := [...]string{
		"applied", "superseded by newer records", plural(total(r.Refused), "failed again, posted as a new letter", "failed again, posted as new letters"),
		plural(total(r.Left), "left as it is", "left as they are"),
	}
	if r.DryRun {
		words = [...]string{
			"would be applied, if the service agrees", plural(r.Superseded, "is superseded by newer records", "are superseded by newer records"),
			"would fail again", plural(total(r.Left), "would be left as it is", "would be left as they are"),
		}
	}
	lines := [][]string{
		{strconv.Itoa(r.Selected), plural(r.Selected, "open dead letter selected", "open dead letters selected")},
		{strconv.Itoa(r.Applied), words[0]},
		{strconv.Itoa(r.Superseded), words[1]},
		{strconv.Itoa(total(r.Refused)), words[2] + reasons(r.Refused)},
		{strconv.Itoa(total(r.Left)), words[3] + reasons(r.Left)},
	}
	if n := r.Selected - r.Applied - r.Superseded - total(r.Refused) - total(r.Left); n > 0 {
		lines = append(lines, []string{strconv.Itoa(n), "not come to an end; run again to go on"})
	}
	if r.Done > 0 {
		lines = append(lines, []string{strconv.Itoa(r.Done), plural(r.Done, "other was replayed or discarded before", "others were replayed or discarded before")})
	}
	if r.Interrupted > 0 {
		lines = append(lines, []string{strconv.Itoa(r.Interrupted), plural(r.Interrupted, "other", "others") + " may have been sent by a run that did not end, and an older value may stand over a newer one; replay them, too"})
	}
	if r.Foreign > 0 {
		lines = append(lines, []string{strconv.Itoa(r.Foreign), plural(r.Foreign, foreignOne, foreignMany)})
	}
	text := aligned(lines)
	for i, n := range r.Notes {
		if i == 0 {
			text += "\n"
		}
		if i == shownNotes {
			return text + "\n… and more: -o json has up to 1000 of them"
		}
		text += fmt.Sprintf("\n%s (letter %d:%d) %s, %s: %s", n.Record, n.Partition, n.Offset, n.Outcome, n.Why, oneLine(n.Message))
	}
	return text
}

// reasons is the counts by word, in brackets; "" if there are none.
func reasons(counts map[string]int) string {
	words := make([]string, 0, len(counts))
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", word, counts[word]))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}
