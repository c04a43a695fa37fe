package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
)

func newWebhooks() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Have the service tell the sink when an import has ended",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWebhookCreate())
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
	return cmd
}

// webhookFlags say who is called, and when.
type webhookFlags struct {
	url, mapping string
	etls         []string
}

// subscription is one webhook (operation 13).
type subscription struct {
	ETL       string `json:"etl"`
	TargetURL string `json:"targetUrl"`
	ID        string `json:"id,omitempty"` // the service's, if its answer tells
}

func newWebhookCreate() *cobra.Command {
	var file, output string
	var flags webhookFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "create -c FILE --url ADDRESS",
		Short: "Subscribe the sink to the end of its imports",
		Long: "create subscribes to the end of the executions of each ETL that the configuration names, one subscription for\n" +
			"each (operation 13). ADDRESS is where the service reaches the sink's admin server; without a path,\n" +
			"/webhooks/executions is added. The header and the secret are those of admin.webhook. The service has no operation\n" +
			"to list or to remove subscriptions: look with --dry-run, and create them once.",
		Example: "  feedsink webhook create -c feedsink.yaml --url https://feedsink.example.com --dry-run\n" +
			"  feedsink webhook create -c feedsink.yaml --url https://feedsink.example.com --mapping customers",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := printResult(io.Discard, output, nil, func() string { return "" }); err != nil {
				return err
			}
			cfg, err := loadConfig(file)
			if err != nil {
				return err
			}
			list, headers, err := flags.subscriptions(cfg)
			if err != nil {
				return &usageError{err}
			}
			var failed error
			if !dryRun {
				list, failed = subscribe(cmd.Context(), cfg, list, headers)
			}
			if len(list) == 0 {
				return failed
			}
			return errors.Join(printResult(cmd.OutOrStdout(), output, list, func() string {
				return subscriptionsText(list, cfg.Admin.Webhook.Header, dryRun)
			}), failed)
		},
	}
	configFlag(cmd, &file)
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&flags.url, "url", "", "address of the sink's admin server as the service reaches it")
	cmd.Flags().StringVar(&flags.mapping, "mapping", "", "only the ETLs of this mapping")
	cmd.Flags().StringSliceVar(&flags.etls, "etl", nil, "only this ETL; repeatable")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the subscriptions and create none")
	return cmd
}

func (f *webhookFlags) subscriptions(cfg *config.Config) ([]subscription, map[string]service.Secret, error) {
	target, err := f.target()
	if err != nil {
		return nil, nil, err
	}
	secret, err := cfg.Admin.Webhook.Secret()()
	if err != nil {
		return nil, nil, fmt.Errorf("admin.webhook.secretFile: %w", err)
	}
	if secret.IsZero() {
		return nil, nil, errors.New("admin.webhook.secretFile: is not configured, and without a secret the sink answers every call with 403")
	}
	var list []subscription
	add := func(etl string) {
		if !slices.ContainsFunc(list, func(s subscription) bool { return s.ETL == etl }) {
			list = append(list, subscription{ETL: etl, TargetURL: target})
		}
	}
	found := f.mapping == ""
	for _, m := range cfg.Mappings {
		if f.mapping != "" && m.Name != f.mapping {
			continue
		}
		found = true
		for _, load := range []*router.Import{m.Imports.Upsert, m.Imports.Patch, m.Imports.Create, m.Imports.Delete} {
			if load != nil && (len(f.etls) == 0 || slices.Contains(f.etls, load.ETL)) {
				add(load.ETL)
			}
		}
	}
	switch {
	case !found:
		return nil, nil, fmt.Errorf("--mapping: there is no mapping %q in the configuration", f.mapping)
	case len(list) < len(f.etls):
		return nil, nil, fmt.Errorf("--etl: of %s, the configuration names %d", strings.Join(f.etls, ", "), len(list))
	case len(list) == 0:
		return nil, nil, errors.New("no import of the configuration names an ETL: there is nothing to be told of")
	}
	return list, map[string]service.Secret{cfg.Admin.Webhook.Header: service.NewSecret(secret.Reveal())}, nil
}

// target is the address to be called.
func (f *webhookFlags) target() (string, error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", errors.New("--url: must be the http or https address of the admin server, without a user or password")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/webhooks/executions"
	}
	return u.String(), nil
}

// subscribe creates one subscription after the other and returns those that were
// created.
func subscribe(ctx context.Context, cfg *config.Config, list []subscription, headers map[string]service.Secret) ([]subscription, error) {
	client, err := build.NewService(cfg.Service)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for i := range list {
		list[i].ID, err = client.CreateWebhook(ctx, service.Webhook{ElementID: list[i].ETL, TargetURL: list[i].TargetURL, Headers: headers})
		if err != nil {
			return list[:i], fmt.Errorf("ETL %s: %w", list[i].ETL, err)
		}
	}
	return list, nil
}

func subscriptionsText(list []subscription, header string, dryRun bool) string {
	var b strings.Builder
	for _, s := range list {
		if dryRun {
			fmt.Fprintf(&b, "would subscribe to the ends of ETL %s: POST %s with %s and the secret\n", s.ETL, s.TargetURL, header)
			continue
		}
		fmt.Fprintf(&b, "subscription %s: ends of ETL %s to %s\n", cmp.Or(s.ID, "(the answer tells no id)"), s.ETL, s.TargetURL)
	}
	return strings.TrimRight(b.String(), "\n")
}
