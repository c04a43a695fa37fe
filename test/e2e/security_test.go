package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/test/certs"
)

// access is one way of the sink to the brokers.
type access struct {
	name    string
	brokers []string  // for the sink
	keys    string    // of the sink's block kafka, in one line
	flags   string    // the same, for init; "": it is not asked
	own     []kgo.Opt // for the test's own clients
	brief   bool      // the sink alone, without the commands
}

// in is a configuration that goes this way.
func (s access) in(yaml string) string {
	if s.keys == "" {
		return yaml
	}
	return strings.Replace(yaml, "kafka: {", "kafka: {"+s.keys+", ", 1)
}

// reach are the options of a client of the test's own.
func (w *world) reach(opts ...kgo.Opt) []kgo.Opt { return slices.Concat(w.own, opts) }

// secrets are the sink's files.
type secrets struct{ dir string }

func (s secrets) file(name string) string { return filepath.Join(s.dir, name) }

func (s secrets) write(tb testing.TB, name string, content []byte) {
	tb.Helper()
	certs.Write(tb, s.file(name), content)
	// The sink may run in a container, as another user.
	if err := errors.Join(os.Chmod(s.dir, 0o755), os.Chmod(s.file(name), 0o644)); err != nil {
		tb.Fatal(err)
	}
}

// bear has the sink show a new certificate of the authority, and trust it.
func (s secrets) bear(tb testing.TB, a *certs.Authority) {
	tb.Helper()
	pair := a.Issue(tb, "feedsink")
	s.write(tb, "ca.pem", a.PEM)
	s.write(tb, "cert.pem", pair.Cert)
	s.write(tb, "key.pem", pair.Key)
}

// trusting and bearing are the block tls with those files.
func (s secrets) trusting() string {
	return "tls: {enabled: true, caFile: " + s.file("ca.pem") + "}"
}

func (s secrets) bearing() string {
	return "tls: {enabled: true, caFile: " + s.file("ca.pem") + ", certFile: " + s.file("cert.pem") + ", keyFile: " + s.file("key.pem") + "}"
}

// known is the block sasl with a password.
func (s secrets) known(mechanism, user string) string {
	return "sasl: {mechanism: " + mechanism + ", username: " + user + ", passwordFile: " + s.file(user+".password") + "}"
}

// askByCommands runs what asks brokers besides the sink.
func (w *world) askByCommands() {
	w.t.Helper()
	for _, command := range []struct{ words, want string }{
		{"check --online", "OK          topic " + w.topic("orders")},
		{"plan --limit 10", w.topic("customers")},
		{"dlq list", w.topic("orders")},
		{"dlq replay --dry-run", "1"},
	} {
		if out, code := w.execute(command.words); code != 0 || !strings.Contains(out, command.want) {
			w.t.Errorf("%s: got exit code %d, want 0 and %q in\n%s", command.words, code, command.want, out)
		}
	}
	if w.through.flags != "" {
		w.begun()
	}
}

// begun has init look at a topic, and plan by what it writes.
func (w *world) begun() {
	w.t.Helper()
	file := filepath.Join(shared(w.t, w.t.TempDir()), "begun.yaml")
	words := "init --brokers " + strings.Join(w.brokers, ",") + " --topic " + w.topic("customers") + " --out " + file + " " + w.through.flags
	if out, code := execute(w.t, strings.Fields(words)...); code != 0 {
		w.t.Errorf("%s: got exit code %d: %s", words, code, out)
		return
	}
	secrets{filepath.Dir(file)}.write(w.t, "api-key", []byte(apiKey))
	plan := exec.CommandContext(w.t.Context(), binary, "plan", "-c", file)
	plan.Env = []string{"FEEDSINK_SECRETS=" + filepath.Dir(file)}
	if out, err := plan.CombinedOutput(); err != nil || !strings.Contains(string(out), w.topic("customers")) {
		w.t.Errorf("plan by what init wrote: got %v: %s", err, out)
	}
}

// TestEverySecurityCarriesBothLanesAndTheCommands runs the sink, and what else
// asks brokers, over each way in.
func TestEverySecurityCarriesBothLanesAndTheCommands(t *testing.T) {
	for _, s := range securities(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorldThrough(t, s, nil)
			sink := w.run(head + deadLetters + mappings)
			w.produce(customer("C1", "gold", 1), customer("C2", "basic", 2), order("o1", "PAID", 3), event("orders", "broken", `{`))
			w.settled()
			if got := w.service.Len("customers"); got != 2 {
				t.Errorf("customers: got %d, want one of each lane", got)
			}
			if got := w.service.Len("orders"); got != 1 {
				t.Errorf("orders: got %d, want 1", got)
			}
			if got := len(w.dead()); got != 1 {
				t.Errorf("dead letters: got %d, want 1", got)
			}
			if !s.brief {
				w.askByCommands()
			}
			sink.terminate(t)
			if strings.Contains(sink.out.String(), password) {
				t.Error("the log holds the password")
			}
		})
	}
}
