package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/words"
)

// Webhooks are the calls that the service is to make when executions end.
type Webhooks struct {
	TargetURL string
	Mapping   string   // only its ETLs; "": those of all mappings
	ETLs      []string // only these; none: all
}

// Subscription is one webhook (operation 13).
type Subscription struct {
	ETL       string `json:"etl"`
	TargetURL string `json:"targetUrl"`
	ID        string `json:"id,omitempty"` // the service's, if its answer tells
}

// Subscriptions has one element for each ETL of the configuration that is meant.
func (w Webhooks) Subscriptions(cfg *config.Config) ([]Subscription, error) {
	if _, err := webhookSecret(cfg); err != nil {
		return nil, err
	}
	var list []Subscription
	found := w.Mapping == ""
	for _, m := range cfg.Mappings {
		if w.Mapping != "" && m.Name != w.Mapping {
			continue
		}
		found = true
		for _, load := range m.Imports.All() {
			if len(w.ETLs) > 0 && !slices.Contains(w.ETLs, load.ETL) {
				continue
			}
			if !slices.ContainsFunc(list, func(s Subscription) bool { return s.ETL == load.ETL }) {
				list = append(list, Subscription{ETL: load.ETL, TargetURL: w.TargetURL})
			}
		}
	}
	switch {
	case !found:
		return nil, fmt.Errorf("--mapping: there is no mapping %q in the configuration", w.Mapping)
	case len(list) < len(w.ETLs):
		return nil, fmt.Errorf("--etl: of %s, the configuration names %d", strings.Join(w.ETLs, ", "), len(list))
	case len(list) == 0:
		return nil, errors.New("no import of the configuration names an ETL: there is nothing to be told of")
	}
	return list, nil
}

func webhookSecret(cfg *config.Config) (config.Secret, error) {
	secret, err := config.SecretFile(cfg.Admin.Webhook.SecretFile)()
	if err != nil {
		return secret, fmt.Errorf("admin.webhook.secretFile: %w", err)
	}
	if secret.IsZero() {
		return secret, errors.New("admin.webhook.secretFile: is not configured, and without a secret the sink answers every call with 403")
	}
	return secret, nil
}

// Subscribe creates one subscription after the other and returns those that were
// created.
func Subscribe(ctx context.Context, cfg *config.Config, list []Subscription) ([]Subscription, error) {
	secret, err := webhookSecret(cfg)
	if err != nil {
		return nil, err
	}
	client, err := build.NewService(cfg.Service)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for i := range list {
		headers := map[string]service.Secret{
			cfg.Admin.Webhook.Header: service.NewSecret(secret.Reveal()),
			admin.ETLHeader:          service.NewSecret(list[i].ETL), // the body may not say whose execution has ended
		}
		list[i].ID, err = client.CreateWebhook(ctx, service.Webhook{ElementID: list[i].ETL, TargetURL: list[i].TargetURL, Headers: headers})
		if err != nil {
			return list[:i], fmt.Errorf("ETL %s: %w", list[i].ETL,
				service.IfUnknown(err, "the subscription may have been created all the same: look at the service before you create it again"))
		}
	}
	return list, nil
}

// SubscriptionsText has a line for each subscription; with dryRun for what it would be.
func SubscriptionsText(list []Subscription, header string, dryRun bool) string {
	var text words.Lines
	for _, s := range list {
		if dryRun {
			text.Add("would subscribe to the ends of ETL %s: POST %s with %s and the secret", s.ETL, s.TargetURL, header)
			continue
		}
		text.Add("subscription %s: ends of ETL %s to %s", cmp.Or(s.ID, "(the answer tells no id)"), s.ETL, s.TargetURL)
	}
	return text.Text()
}
