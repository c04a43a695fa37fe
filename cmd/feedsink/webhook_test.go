package main

import (
	"strings"
	"testing"
)

func TestWebhookCreateSubscribesEachETLWithTheSecret(t *testing.T) {
	d := newHost(t)
	d.change("      upsert: {mode: CREATE_OR_UPDATE}\n", "")
	d.change("mappings:\n", `mappings:
  - name: orders # in a bundle, two mappings name one ETL: one subscription
    topics: [shop.orders]
    customTable: orders
    key: businessKey
    bundle: all
    routes: [{lane: batch}]
    imports: {delete: {etl: "7", mode: DELETE}, columns: [businessKey]}
`)
	d.change("    key: customerNumber\n", "    key: customerNumber\n    bundle: all\n")
	if code, out, failed := d.run("webhook create --url https://feedsink.example.com --dry-run"); code != 0 || d.service.CallCount(13) != 0 || strings.Contains(out, "s3cret") {
		t.Errorf("dry run: got code %d, %d calls, %s %s, want none and no secret", code, d.service.CallCount(13), out, failed)
	}
	code, out, failed := d.run("webhook create --url https://feedsink.example.com/")
	if code != 0 || !strings.Contains(out, ": ends of ETL 7 to https://feedsink.example.com/webhooks/executions") || d.service.CallCount(13) != 1 {
		t.Errorf("got code %d, %d calls, %q %q, want one subscription for ETL 7", code, d.service.CallCount(13), out, failed)
	}
}

func TestWebhookCreateSaysWhatIsWrong(t *testing.T) {
	d := newHost(t)
	d.change("upsert: {mode", `upsert: {etl: "6", mode`)
	for line, want := range map[string]string{
		"webhook create":                                             "--url: must be the http or https address",
		"webhook create --url https://:8443":                         "--url: must be the http or https address",
		"webhook create --url https://user:pw@example.com":           "without a user or password",
		"webhook create --url https://example.com --mapping orders":  `there is no mapping "orders"`,
		"webhook create --url https://example.com --etl 6 --etl 999": "of 6, 999, the configuration names 1",
	} {
		if code, _, failed := d.run(line); code != 2 || !strings.Contains(failed, want) {
			t.Errorf("%s: got code %d, %q, want 2 and %q", line, code, failed, want)
		}
	}
	d.change("{secretFile: ./secret}", "{}")
	if code, _, failed := d.run("webhook create --url https://example.com"); code != 2 || !strings.Contains(failed, "answers every call with 403") {
		t.Errorf("without a secret: got code %d, %q", code, failed)
	}
}
