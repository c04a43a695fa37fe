//go:build !kafka

package e2e_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestBrokerIsUpgradedAndDowngradedUnderTheSink replaces the broker by one of
// another release on the same data and address, while the sink runs: what it may
// ask for changes, and what it has committed stays.
//
// It runs alone: another test could take the address while the broker is away.
func TestBrokerIsUpgradedAndDowngradedUnderTheSink(t *testing.T) {
	data := kfake.DataDir(t.TempDir())
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), data, kfake.MaxVersions(kversion.V2_8_0()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	addresses := broker.ListenAddrs()
	_, text, _ := net.SplitHostPort(addresses[0])
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldThrough(t, access{brokers: addresses, own: []kgo.Opt{kgo.SeedBrokers(addresses...)}}, nil)
	sink := w.start(head + deadLetters + mappings)
	rows := func(release int) {
		t.Helper()
		for seq := 1; seq <= 20; seq++ {
			w.produce(customer(fmt.Sprint("C", seq), []string{"gold", "basic"}[seq%2], release), order("o1", "PAID", 20*release+seq))
		}
	}
	rows(1)
	w.settled()
	before := w.service.CallCount(1)
	for i, release := range []*kversion.Versions{kversion.V3_9_0(), kversion.Stable(), kversion.V2_8_0()} {
		broker.Close()
		next, err := kfake.NewCluster(kfake.NumBrokers(1), data, kfake.Ports(port), kfake.MaxVersions(release))
		if err != nil {
			t.Fatal(err)
		}
		broker = next
		rows(2 + i)
		w.settled()
		if got, want := w.service.CallCount(1)-before, int64(10*(i+1)); got != want {
			t.Errorf("release %d: got %d calls for customers since the first one, want %d: nothing is read twice", i+2, got, want)
		}
	}
	sink.stop()
	if got := w.service.Len("customers"); got != 20 {
		t.Errorf("customers: got %d, want 20", got)
	}
	if got := len(w.dead()); got != 0 {
		t.Errorf("dead letters: got %d, want none", got)
	}
}
