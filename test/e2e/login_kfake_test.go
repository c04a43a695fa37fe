//go:build !kafka

package e2e_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// TestARefusedLoginIsToldAndCured has another's password in the file: the log
// warns, and the right one is taken up without a restart.
func TestARefusedLoginIsToldAndCured(t *testing.T) {
	t.Parallel()
	files := secrets{t.TempDir()}
	files.write(t, "me.password", []byte("another\n"))
	s := embedded(t, access{
		keys: files.known("PLAIN", "me"),
		own:  []kgo.Opt{kgo.SASL(plain.Auth{User: "me", Pass: password}.AsMechanism())},
	}, kfake.EnableSASL(), kfake.Superuser("PLAIN", "me", password))
	w := newWorldThrough(t, s, nil)
	sink := w.run(head + deadLetters + mappings)
	w.until("the log warns", func() bool {
		return strings.Contains(sink.out.String(), `level=WARN msg=waiting cause=kafka_unreachable`)
	})
	if out, code := w.execute("check --online"); code == 0 {
		t.Errorf("check --online: got exit code 0, want what is wrong:\n%s", out)
	}
	files.write(t, "me.password", []byte(password))
	w.produce(customer("C1", "gold", 1))
	w.settled()
	if got := w.service.Len("customers"); got != 1 {
		t.Errorf("customers: got %d, want 1", got)
	}
	sink.terminate(t)
}
