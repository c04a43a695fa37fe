package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// mark is in every value of a customer, with the place where it stands, so that a
// leak tells where it came from. No name of a file is random in capital letters.
const mark = "zQ7"

// withStrictTables has the service refuse values, and say which.
func withStrictTables(c *sandbox.Config) {
	withRules(c)
	withOrdersETL(c)
}

// talkative repeats in each refusal all that it was sent, as services do.
func talkative(service http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sink has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
		r.Header.Del("Expect") // it has been read
		answer := httptest.NewRecorder()
		service.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		if answer.Code >= 400 {
			_, _ = fmt.Fprintf(w, " refused: %s %s", r.URL, sent)
		}
	}
}

// between has the sink call what is put around the service.
func (w *world) between(around func(service http.Handler) http.HandlerFunc) {
	w.t.Helper()
	service, err := url.Parse(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewServer(around(httputil.NewSingleHostReverseProxy(service)))
	w.t.Cleanup(server.Close)
	w.url = server.URL
}

// leaky are records that go wrong in every way, with marks in all of them.
func leaky() []*kgo.Record {
	bad := func(topic, where, value string) *kgo.Record {
		r := event(topic, mark+"key"+where, strings.ReplaceAll(value, "%", mark+where))
		r.Headers = []kgo.RecordHeader{{Key: mark + "header" + where, Value: []byte(mark + "headervalue" + where)}}
		return r
	}
	return []*kgo.Record{
		bad("orders", "json", `{"op":"%"`),
		bad("orders", "op", `{"op":"%"}`),
		bad("orders", "field", `{"op":"upsert","businessKey":"%","properties":{"nosuch":"%"}}`),
		bad("orders", "type", `{"op":"upsert","businessKey":"%","properties":{"seq":"%"}}`),
		bad("orders", "patch", `{"op":"patch","businessKey":"%","properties":{"status":"%"}}`),
		bad("orders", "create", `{"op":"create","businessKey":"%","properties":{"status":"%"}}`),
		bad("orders", "again", `{"op":"create","businessKey":"%","properties":{"status":"%"}}`),
		bad("orders", "fine", `{"op":"upsert","businessKey":"%","properties":{"status":"%"}}`),
		bad("customers", "mail", `{"op":"upsert","key":{"customerNumber":"%"},"attributes":{"customerNumber":"%","emailAddress":"%"},"segments":{"tier":"gold"}}`),
		bad("customers", "length", `{"op":"upsert","key":{"customerNumber":"%"},"attributes":{"customerNumber":"%","lastName":"% is far too long a name"},"segments":{"tier":"gold"}}`),
		bad("customers", "row", `{"op":"upsert","key":{"customerNumber":"%"},"attributes":{"customerNumber":"%","lastName":"% is far too long a name"}}`),
		bad("customers", "segment", `{"op":"upsert","key":{"customerNumber":"%"},"attributes":{"customerNumber":"%"},"segments":{"tier":"%"}}`),
		bad("customers", "subscription", `{"op":"upsert","key":{"customerNumber":"%"},"attributes":{"customerNumber":"%"},"subscriptions":{"newsletter":"%"}}`),
		bad("customers", "rule", `{"op":"upsert","key":{"customerNumber":"%"},"attributes":{"customerNumber":"%","lastName":"Nemo %"}}`),
		bad("customers", "noid", `{"op":"patch","key":{"customerNumber":"%"},"attributes":{"lastName":"%"},"segments":{"tier":"gold"}}`),
		bad("customers", "number", `{"op":"upsert","key":{"customerNumber":"%"},"attributes":{"customerNumber":"%","seq":"%"}}`),
	}
}

func TestNoCustomerValueShowsAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withStrictTables)
	if err := w.service.RejectRows(sandbox.Rejection{Column: "lastName", Match: "^Nemo", Reason: mark + "reason: nobody of this name"}); err != nil {
		t.Fatal(err)
	}
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Count: 2, Answer: sandbox.Status(503)})
	w.between(talkative)
	sink := w.run(head + deadLetters + mappings)
	address := sink.admin(w)
	w.produce(leaky()...)
	w.settled()
	w.until("what can never be applied is a dead letter", func() bool { return len(w.dead()) >= 10 })

	shown := map[string]string{}
	for _, path := range []string{"/", "/status", "/metrics", "/imports", "/imports/customers", "/readyz"} {
		shown[path] = get(t, address, path)
	}
	command := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), binary, append(args, "-c", filepath.Join(w.dir, "feedsink.yaml"))...)
		cmd.Env = sink.cmd.Env
		out, err := cmd.CombinedOutput()
		shown[strings.Join(args, " ")] = fmt.Sprintf("%s\n%v", out, err)
	}
	command("dlq", "list")
	command("dlq", "list", "--by", "mapping,reason,topic")
	command("dlq", "list", "-o", "json")
	command("dlq", "replay", "--log-level", "debug")
	command("plan")
	command("check", "--online")
	sink.terminate(t)
	shown["the log"] = sink.out.String()

	tellsNothing(t, shown)
}
