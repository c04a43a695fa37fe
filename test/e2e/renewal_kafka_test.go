//go:build kafka

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/test/certs"
)

// TestRenewedSecretsAreTakenUpWithoutARestart has the broker take other secrets
// than before, ends all connections, and gives the sink the new ones only after
// it was refused.
func TestRenewedSecretsAreTakenUpWithoutARestart(t *testing.T) {
	g := guards
	const user, later = "rotating", "another-password"
	g.admit(t, user, password)
	g.write(t, user+".password", []byte(password))
	next := certs.NewAuthority(t, "second")
	for name, c := range map[string]struct {
		listener, keys, refused string
		broker, sink            func(t *testing.T)
	}{
		"certificates and authorities": {
			listenMTLS, g.mutual.bearing(), "certificate signed by unknown authority",
			func(t *testing.T) { g.renew(t, listenMTLS, "2", next) },
			func(t *testing.T) { g.mutual.bear(t, next) },
		},
		"a password": {
			listenSCRAM, g.trusting() + ", " + g.known("SCRAM-SHA-512", user), "SASL_AUTHENTICATION_FAILED",
			func(t *testing.T) { g.admit(t, user, later) },
			func(t *testing.T) { g.write(t, user+".password", []byte(later)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := usual(t)
			s.keys, s.brokers = c.keys, []string{g.relays[c.listener].address()}
			w := newWorldThrough(t, s, nil)
			sink := w.run(head + deadLetters + mappings)
			w.produce(customer("C1", "gold", 1), customer("C2", "basic", 1), order("o1", "PAID", 1))
			w.settled()

			c.broker(t)
			w.produce(customer("C1", "gold", 2), customer("C2", "basic", 2), order("o1", "PAID", 2))
			// The broker takes its time, so connections end again and again until it
			// does, with enough time between for one to be made.
			var cut time.Time
			w.until("the sink is refused", func() bool {
				if time.Since(cut) > 2*time.Second {
					g.relays[c.listener].cut()
					cut = time.Now()
				}
				return strings.Contains(sink.out.String(), c.refused)
			})
			w.produce(order("o1", "PAID", 3))
			if w.lag("immediate", "orders") == 0 {
				t.Error("the sink reads on with the old secrets")
			}
			c.sink(t)
			w.settled()
			for table, want := range map[string]string{"orders": "3", "customers": "2"} {
				key := map[string]string{"orders": "o1", "customers": "C1"}[table]
				row, _ := w.service.Row(table, key)
				if got := row.Text("seq"); got != want {
					t.Errorf("%s %s: got seq %q, want %s", table, key, got, want)
				}
			}
			sink.terminate(t)
			if out := sink.out.String(); strings.Contains(out, password) || strings.Contains(out, later) {
				t.Error("the log holds a password")
			}
		})
	}
}
