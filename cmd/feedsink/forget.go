package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/forget"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
)

func newForget() *cobra.Command {
	var o ops.ForgetOptions
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget -c FILE --mapping NAME KEY",
		Short: "Tell where the data of a key still is, and remove what is feedsink's",
		Long: "forget looks for the data of one row: in the mapping's topics, in what the sink has not confirmed, in the\n" +
			"dead-letter topic, and in the spool of this machine. KEY is what the table knows the row by: the value of the unique\n" +
			"key, or the business key. It reports; with --yes, or once a person at a terminal has agreed, it removes: dead letters\n" +
			"are ended and deleted where Kafka allows it, rows of files that are kept are left out of them. Files on their way are\n" +
			"not touched: they go with their import. What is the service's or of those who write the topics is listed, with what\n" +
			"removes it; receipts, which have a keyed hash of the key, are counted. Then it looks again and prints a report that\n" +
			"can be filed. It shows the key and no other value, works beside a running sink, and has to run on each machine with\n" +
			"a spool.\n\n" +
			forget.Meanings.Columns() +
			"\n\nIt exits with 1 if data of the key is left in a place of feedsink's.",
		Example: "  feedsink forget -c feedsink.yaml --mapping customers C000123\n" +
			"  feedsink forget -c feedsink.yaml --mapping customers --yes -o json C000123 > C000123.json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Key = args[0]; o.Key == "" {
				return usagef("KEY: must not be empty")
			}
			if err := replay.CheckReason(o.Reason); err != nil {
				return usagef("--reason: %w", err)
			}
			return runForget(cmd, o, yes)
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	mappingFlag(cmd, &o.Name)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "remove what can be removed, without asking")
	cmd.Flags().StringVar(&o.Reason, "reason", "forgotten", "why the dead letters are discarded, for those who look at them later; not whose they are")
	return cmd
}

// errLeft says that data of the key is left, as the report does.
var errLeft = errors.New("data of the key is left")

func runForget(cmd *cobra.Command, o ops.ForgetOptions, yes bool) error {
	cfg, log, err := quiet.with(cmd, forPlan)
	if err != nil {
		return err
	}
	defer log.Close()
	o.Log = log.Logger
	if cmd.Flags().Changed("config") && configFile(cmd) != "-" {
		o.ConfigFile = configFile(cmd)
	}
	report, err := forgetOnce(cmd, cfg, o, yes)
	if err != nil {
		return err
	}
	if !yes && report.Actionable() && asks(cmd) {
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), report.Text())
		if agreed(cmd) {
			if report, err = forgetOnce(cmd, cfg, o, true); err != nil {
				return err
			}
			_, _ = fmt.Fprintln(cmd.OutOrStdout())
		}
		if !report.Yes {
			return fmt.Errorf("%w; nothing was removed", errLeft)
		}
	}
	if err := printResult(cmd, report, report.Text()); err != nil {
		return err
	}
	if report.Left > 0 || len(report.Failed) > 0 {
		return errLeft
	}
	return nil
}

func forgetOnce(cmd *cobra.Command, cfg *config.Config, o ops.ForgetOptions, yes bool) (forget.Report, error) {
	bar := newReading(cmd)
	defer bar.end()
	o.Progress, o.Remove = bar.at, yes
	report, err := ops.Forget(cmd.Context(), cfg, o)
	if errors.Is(err, ops.ErrNoMapping) {
		return report, asUsage(err)
	}
	return report, err
}

// asks reports whether a person can be asked: what is read and what is printed are a
// terminal.
func asks(cmd *cobra.Command) bool {
	in, isIn := cmd.InOrStdin().(*os.File)
	out, isOut := cmd.OutOrStdout().(*os.File)
	return !wantsJSON(cmd) && isIn && isOut && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// agreed asks whether to remove what the report says.
func agreed(cmd *cobra.Command) bool {
	_, _ = fmt.Fprint(cmd.OutOrStdout(), "\nDo what the lines say under yes? It cannot be taken back. Type yes: ")
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // its end is no agreement
	return strings.TrimSpace(answer) == "yes"
}
