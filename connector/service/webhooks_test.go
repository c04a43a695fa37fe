package service

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func webhook() Webhook {
	return Webhook{
		ElementID: "101", TargetURL: "https://sink.example.com/webhooks/executions",
		Headers: map[string]Secret{"X-Feedsink-Secret": NewSecret(`hunter"2`)},
	}
}

const wantWebhook = `{"on":"ETL_EXECUTION","onElementId":"101","eventType":"FINISHED",
	"targetUrl":"https://sink.example.com/webhooks/executions","headers":{"X-Feedsink-Secret":"hunter\"2"},
	"webhookPushType":"ONE_BY_ONE","isActive":true}`

func TestWebhookIsSentAsTheInterfaceHasIt(t *testing.T) {
	var got string
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		_, _ = io.WriteString(w, `{"id":5}`)
	}}
	c := s.start(t)
	id, err := c.CreateWebhook(t.Context(), webhook())
	if err != nil || id != "5" || !reflect.DeepEqual(decoded(t, []byte(got)), decoded(t, []byte(wantWebhook))) {
		t.Errorf("got %s (id %q, %v), want %s (id 5)", got, id, err, wantWebhook)
	}
	sleeping := webhook()
	sleeping.Inactive, sleeping.Headers = true, nil
	if _, err := c.CreateWebhook(t.Context(), sleeping); err != nil || !strings.Contains(got, `"headers":{}`) ||
		!strings.Contains(got, `"isActive":false`) {
		t.Errorf("inactive, without headers: got %s, %v", got, err)
	}
}

func TestRefusedWebhookDoesNotShowItsSecret(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(append(body, ` hunter"2`...))
	}}
	_, err := s.start(t).CreateWebhook(t.Context(), webhook())
	if e := errorOf(t, err); strings.Contains(e.Error(), "hunter") || !strings.Contains(e.Error(), "ONE_BY_ONE") {
		t.Errorf("got %v, want the answer without the secret", e)
	}
}

func TestWebhooksThatCannotWorkAreNotSent(t *testing.T) {
	c := newClient(t, Config{BaseURL: "http://127.0.0.1:1", AuthURL: "http://127.0.0.1:1"})
	for want, broken := range map[string]func(*Webhook){
		"onElementId: must not be empty":                         func(w *Webhook) { w.ElementID = "" },
		"targetUrl: must begin with http:// or https://":         func(w *Webhook) { w.TargetURL = "ftp://x" },
		"targetUrl: must begin with http:// or https:// and a":   func(w *Webhook) { w.TargetURL = "https://:8443" },
		`headers: "X Secret" cannot be sent`:                     func(w *Webhook) { w.Headers = map[string]Secret{"X Secret": NewSecret("s")} },
		`headers: "X-Secret" cannot be sent`:                     func(w *Webhook) { w.Headers = map[string]Secret{"X-Secret": {}} },
		`headers: "X-Break" cannot be sent: its name or its val`: func(w *Webhook) { w.Headers = map[string]Secret{"X-Break": NewSecret("a\nb")} },
	} {
		w := webhook()
		broken(&w)
		_, err := c.CreateWebhook(t.Context(), w)
		unsent(t, err, "create webhook: ", want)
	}
}
