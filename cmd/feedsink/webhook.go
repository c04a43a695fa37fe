package main

import (
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
)

func newWebhooks() *cobra.Command {
	return newGroup("webhook", "Have the service tell the sink when an import has ended",
		newWebhookCreate())
}

func newWebhookCreate() *cobra.Command {
	var address string
	var hooks ops.Webhooks
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "create -c FILE --url ADDRESS",
		Short: "Subscribe the sink to the end of its imports",
		Long: "create subscribes to the end of the executions of each ETL that the configuration names, one subscription for\n" +
			"each (operation 13). ADDRESS is where the service reaches the sink's admin server; without a path,\n" +
			"/webhooks/executions is added. The header and the secret are those of admin.webhook; a further header,\n" +
			"X-Feedsink-ETL, tells whose import a call is about where the service names no execution when it takes a file. The\n" +
			"service has no operation to list or to remove subscriptions: look with --dry-run, and create them once.",
		Example: "  feedsink webhook create -c feedsink.yaml --url https://feedsink.example.com --dry-run\n" +
			"  feedsink webhook create -c feedsink.yaml --url https://feedsink.example.com --mapping customers",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd, config.File.Config)
			if err != nil {
				return err
			}
			if hooks.TargetURL, err = target(address); err != nil {
				return asUsage(err)
			}
			list, err := hooks.Subscriptions(cfg)
			if err != nil {
				return asUsage(err)
			}
			var failed error
			if !dryRun {
				list, failed = ops.Subscribe(cmd.Context(), cfg, list)
			}
			if len(list) == 0 {
				return failed
			}
			return errors.Join(printResult(cmd, list, ops.SubscriptionsText(list, cfg.Admin.Webhook.Header, dryRun)), failed)
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	cmd.Flags().StringVar(&address, "url", "", "address of the sink's admin server as the service reaches it")
	cmd.Flags().StringVar(&hooks.Mapping, "mapping", "", "only the ETLs of this mapping")
	cmd.Flags().StringSliceVar(&hooks.ETLs, "etl", nil, "only this ETL; repeatable")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the subscriptions and create none")
	return cmd
}

func target(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", errors.New("--url: must be the http or https address of the admin server, without a user or password")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/webhooks/executions"
	}
	return u.String(), nil
}
