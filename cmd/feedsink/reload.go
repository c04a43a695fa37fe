package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/reload"
)

func newReload() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a running sink read its configuration file again",
		Long: "reload has one running sink read its configuration file again and put it in force: mappings, routes, fields, imports,\n" +
			"rates, secrets and the log's level. The sink stays in its consumer groups: it finishes the calls in flight, commits, and\n" +
			"goes on from there; imports that run are awaited. A file with a mistake changes nothing.\n\n" +
			"Keys that need a restart keep their values and are named: all of kafka, admin, memory and tracing, spool.dir,\n" +
			"service.timeout and log.format. Nothing is changed where that cannot be: when mappings begin to use a lane that none used,\n" +
			"or none uses it any more, and when they change together with kafka.brokers or kafka.group.\n\n" +
			"Each member of a deployment reloads its own file. SIGHUP does the same, and run --watch does it when the file changes.",
		Example: "  feedsink reload -c feedsink.yaml\n" +
			"  kubectl exec POD -- /feedsink reload -c /etc/feedsink/feedsink.yaml",
	}
	askSink(cmd, func(ctx context.Context, c *admin.Client, _ []string) (any, string, error) {
		var done reload.Report
		err := c.Reload(ctx, &done)
		return done, done.Text(), err
	})
	return cmd
}
