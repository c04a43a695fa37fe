// Command feedsink carries profile and record changes from Kafka into a
// marketing database.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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
// (SIGHUP) is one, unless the command was started to outlive it, as nohup does.
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
	if usage, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintln(os.Stderr, usage.Error())
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "feedsink: %v\n", err)
	return exitFailed
}

// usageError is the caller's mistake: flags, arguments or configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "feedsink",
		Short: "Kafka sink connector for a marketing database",
		Long: "feedsink reads profile and record change events from Kafka and writes them into the tables of a\n" +
			"marketing database: what must be there within seconds by single calls, the rest by file imports.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%s: %w (see %s --help)", cmd.CommandPath(), err, cmd.CommandPath())}
	})
	root.AddCommand(newCheck(), newDev(), newDLQ(), newETLs(), newImport(), newImports(), newInit(), newLogLevel(), newPlan(), newProfile(), newRecord(), newRun(), newVersion(), newWebhooks())
	for _, sub := range root.Commands() {
		wrapArgs(sub)
	}
	wrapArgs(root)
	return root
}

// wrapArgs makes an argument too many, or an unknown command, a usage error.
func wrapArgs(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{fmt.Errorf("feedsink: %w (see feedsink --help)", err)}
		}
		return nil
	}
}
