package service

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Webhook asks to be called when an execution ends. Of what a subscription may
// be on, the interface shows executions (ETL_EXECUTION), their end (FINISHED)
// and one call for each of them (ONE_BY_ONE): these are always sent.
type Webhook struct {
	ElementID string            // what is watched: an ETL
	TargetURL string            // http or https
	Headers   map[string]Secret // sent with each call, so that its receiver knows who calls
	Inactive  bool              // subscribes without being called
}

type wireWebhook struct {
	On        string            `json:"on"`
	ElementID string            `json:"onElementId"`
	EventType string            `json:"eventType"`
	TargetURL string            `json:"targetUrl"`
	Headers   map[string]string `json:"headers"`
	PushType  string            `json:"webhookPushType"`
	Active    bool              `json:"isActive"`
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// Validate reports everything in the subscription that cannot work, at once.
func (w Webhook) Validate() error {
	var p problems
	p.need("onElementId", w.ElementID)
	u, err := url.Parse(w.TargetURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		p.add("targetUrl", "must begin with http:// or https:// and a host")
	}
	for name, value := range w.Headers {
		if !headerName.MatchString(name) || !headerSafe(value.Reveal()) {
			p.add("headers", "%q cannot be sent: its name or its value is empty or holds characters that no HTTP header may carry", name)
		}
	}
	return errors.Join(p...)
}

// CreateWebhook subscribes to the end of executions and returns the
// subscription's id (operation 13), "" if the answer does not tell.
func (c *Client) CreateWebhook(ctx context.Context, webhook Webhook) (string, error) {
	if err := webhook.Validate(); err != nil {
		return "", unsendable(OpCreateWebhook, err)
	}
	headers := make(map[string]string, len(webhook.Headers))
	var secrets []string
	for name, value := range webhook.Headers {
		headers[name] = value.Reveal()
		quoted := strings.Trim(string(raw(value.Reveal())), `"`) // as an echo of the body has it
		secrets = append(secrets, value.Reveal(), quoted)
	}
	body, err := json.Marshal(wireWebhook{
		On: "ETL_EXECUTION", ElementID: webhook.ElementID, EventType: "FINISHED",
		TargetURL: webhook.TargetURL, Headers: headers, PushType: "ONE_BY_ONE", Active: !webhook.Inactive,
	})
	if err != nil {
		return "", unsendable(OpCreateWebhook, err)
	}
	got, err := c.send(ctx, &call{op: OpCreateWebhook, method: http.MethodPost, body: JSON(body), secrets: secrets},
		c.webhooks+"/webhookSubscription")
	if err != nil {
		return "", err
	}
	return identifier(got.body, got.header, webhookNames), nil
}
