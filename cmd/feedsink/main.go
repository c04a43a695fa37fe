// Command feedsink carries profile and record changes from Kafka into a
// marketing database.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	_ "time/tzdata" // the image has no time zones of its own

	"github.com/spf13/cobra"
)

// Set by the linker for releases; see the Makefile.
var (
	version = "dev"
	commit  = ""
)

// Exit codes.
const (
	exitFine   = 0
	exitFailed = 1
	exitUsage  = 2 // bad usage or configuration
	// exitInterrupted is a shell's for a command that Ctrl-C ended; also of other signals
	// that end a command before its work is done.
	exitInterrupted = 130
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), stops()...)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	root := newRoot()
	root.SetArgs(args)
	return exitCode(root.ExecuteContext(ctx))
}

// stops are the signals that end a command in order, which for the sink means that
// calls in flight are finished and offsets committed. A terminal that goes away
// (SIGHUP) is one, unless the command was started to outlive it, as nohup does, or is
// run, which reloads.
func stops() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// exitCode prints what ended the command and chooses the code for it.
func exitCode(err error) int {
	if err == nil {
		return exitFine
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "feedsink: %s\n", worded(err))
		return exitInterrupted
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintln(os.Stderr, usage.Error())
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "feedsink: %s\n", worded(err))
	return exitFailed
}

// worded is what ended the command, for who reads it: a signal, for commands cancel nothing
// else that they wait for, or an error with what to do about it.
func worded(err error) string {
	if errors.Is(err, context.Canceled) {
		return cancellation.Replace(err.Error())
	}
	return advised(err).Error()
}

// cancellation is how Go's packages word an interrupt.
var cancellation = strings.NewReplacer("context canceled", "interrupted", "operation was canceled", "interrupted")

// usageError is the caller's mistake: flags, arguments or configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "feedsink",
		Short: "Kafka sink connector for a marketing database",
		Long: "feedsink reads profile and record change events from Kafka and writes them into the tables of a\n" +
			"marketing database: what must be there within seconds by single calls, the rest by file imports.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          showHelp,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s: %w (see %[1]s --help)", cmd.CommandPath(), err)
	})
	root.AddCommand(newAudit(), newBackfill(), newCheck(), newDev(), newDLQ(), newETLs(), newForget(), newImport(), newImports(), newInit(), newLogLevel(), newPause(), newPlan(), newProfile(), newRecord(), newReload(), newResume(), newRun(), newTest(), newVerify(), newVersion(), newWebhooks(), newWhy())
	root.AddCommand(manualPages()...)
	root.PersistentPreRunE = checkOutput
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	cobrasOwn(root)
	wrapArgs(root)
	complete(root)
	return root
}

// cobrasOwn adds the commands that the library adds by itself, which answer a word that they
// do not know with their help, as if it had been asked for.
func cobrasOwn(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 {
					err = fmt.Errorf("unknown command %q for %q", rest[0], found.CommandPath())
				}
				return err
			}
		case "completion":
			cmd.RunE = showHelp
		}
	}
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// newGroup is a command that only has others below it.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: showHelp}
	cmd.AddCommand(commands...)
	return cmd
}

// wrapArgs makes an argument too many, or an unknown command, a usage error, here and
// in all commands below.
func wrapArgs(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usagef("feedsink: %w (see feedsink --help)", err)
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

func outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("output", "o", "text", "text or json")
}

func wantsJSON(cmd *cobra.Command) bool { return cmd.Flag("output").Value.String() == "json" }

// checkOutput refuses a form that does not exist before anything is read or sent.
func checkOutput(cmd *cobra.Command, _ []string) error {
	if f := cmd.Flag("output"); f != nil && f.Value.String() != "text" && f.Value.String() != "json" {
		return usagef("-o: must be text or json, is %q", f.Value)
	}
	return nil
}

// printResult prints a result as -o says: as text or as JSON.
func printResult(cmd *cobra.Command, result any, text string) error {
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), result)
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// unfinished is a report of what was found until now.
type unfinished interface {
	Empty() bool
	Text() string
}

// printUnfinished prints what a command has found, as printResult does, where an error ended it
// before its work was done. The error goes into the report, which is no result then; where
// nothing was found yet, nothing is printed.
func printUnfinished(cmd *cobra.Command, report unfinished, note *string, err error) error {
	if err != nil && report.Empty() {
		return err
	}
	if err != nil {
		*note = worded(err)
	}
	return errors.Join(printResult(cmd, report, report.Text()), err)
}

func printJSON(to io.Writer, value any) error {
	enc := json.NewEncoder(to)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go release",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version string `json:"version"`
				Commit  string `json:"commit"`
				Go      string `json:"go"`
			}{version, revision(), runtime.Version()}
			return printResult(cmd, v, versionText())
		},
	}
	outputFlag(cmd)
	return cmd
}

func versionText() string {
	return fmt.Sprintf("feedsink %s, commit %s, %s", version, revision(), runtime.Version())
}

// revision is the commit the linker was told, or the one the Go command saw.
func revision() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
