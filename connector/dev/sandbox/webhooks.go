package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// webhooks are the subscriptions of operation 13.
type webhooks struct {
	mu   sync.Mutex
	list []subscription
}

// webhookClient keeps no connection: calls are rare and Close must leave
// nothing behind.
var webhookClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// subscription is the body of operation 13.
type subscription struct {
	On        string            `json:"on"`
	ElementID string            `json:"onElementId"`
	EventType string            `json:"eventType"`
	TargetURL string            `json:"targetUrl"`
	Headers   map[string]string `json:"headers"`
	PushType  string            `json:"webhookPushType"`
	IsActive  bool              `json:"isActive"`
}

// subscribe is operation 13. Its answer, which the document does not show, is
// an id.
func (s *Sandbox) subscribe(r *http.Request, c *call) (func() (answer, error), error) {
	var sub subscription
	if err := s.body(r, c, &sub); err != nil {
		return nil, err
	}
	if sub.On != "ETL_EXECUTION" || sub.EventType != "FINISHED" || sub.PushType != "ONE_BY_ONE" {
		return nil, refuse(http.StatusBadRequest, "on ETL_EXECUTION, eventType FINISHED and webhookPushType ONE_BY_ONE are expected")
	}
	if sub.TargetURL == "" || sub.ElementID == "" {
		return nil, refuse(http.StatusBadRequest, "targetUrl and onElementId are required")
	}
	return func() (answer, error) {
		s.imports.mu.Lock()
		id := s.imports.newID()
		s.imports.mu.Unlock()
		s.hooks.mu.Lock()
		defer s.hooks.mu.Unlock()
		s.hooks.list = append(s.hooks.list, sub)
		c.ID, c.Seq = id, s.log.seq.Add(1)
		return s.idAnswer(r, id), nil
	}, nil
}

// notify calls the webhooks of an execution that is FINISHED, one after the
// other and once each: the document shows no retries. onElementId is taken for
// an ETL's id or an execution's.
func (s *Sandbox) notify(e Execution) {
	if e.Status != Finished {
		return
	}
	s.hooks.mu.Lock()
	list := append([]subscription(nil), s.hooks.list...)
	s.hooks.mu.Unlock()
	for _, sub := range list {
		if sub.IsActive && (sub.ElementID == e.ETL || sub.ElementID == e.ID) {
			s.push(sub, e)
		}
	}
}

// push makes one webhook call, bounded so that a closing sandbox can wait for
// it.
func (s *Sandbox) push(sub subscription, e Execution) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.TargetURL, bytes.NewReader(s.conf.Shapes.Webhook.payload(e)))
	if err != nil {
		return // a target that is no URL is never called
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range sub.Headers {
		r.Header.Set(name, value)
	}
	answer, err := webhookClient.Do(r)
	if err != nil {
		return // lost, as webhooks may be
	}
	_ = answer.Body.Close() // what it says is of no interest
}

// payload is what a webhook's call carries, which the document does not show.
func (w WebhookShape) payload(e Execution) []byte {
	content := map[string]any{"eventType": "FINISHED", "etlId": e.ETL, "executionId": e.ID, "status": e.Status}
	switch w {
	case WebhookEmpty:
		return nil
	case WebhookNested:
		content = map[string]any{
			"event":     map[string]string{"on": "ETL_EXECUTION", "type": "FINISHED"},
			"execution": map[string]any{"id": json.Number(e.ID), "etl": map[string]string{"id": e.ETL}},
		}
	}
	body, err := json.Marshal(content)
	if err != nil { // texts alone
		panic(err)
	}
	return body
}
