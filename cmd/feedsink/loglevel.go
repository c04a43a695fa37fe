package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/admin"
)

func newLogLevel() *cobra.Command {
	var sink sinkFlags
	var level string
	cmd := &cobra.Command{
		Use:   "log-level [debug|info|warn|error]",
		Short: "Show a running sink's log level, or change it",
		Long: "log-level asks one running sink how much it logs, or has it log more or less from now on, until it is\n" +
			"changed again or the process ends; then the configuration says again.",
		Example: "  feedsink log-level -c feedsink.yaml debug\n" +
			"  kubectl exec POD -- /feedsink log-level -c /etc/feedsink/feedsink.yaml debug",
	}
	sink.command(cmd, func(ctx context.Context, c *admin.Client) (any, func() string, error) {
		var is admin.LogLevelAnswer
		err := c.LogLevel(ctx, &is)
		if err == nil && level != "" {
			err = c.SetLogLevel(ctx, level, &is)
		}
		return is, func() string { return is.Level }, err
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			level = args[0]
		}
		return cobra.MaximumNArgs(1)(cmd, args)
	}
	return cmd
}
