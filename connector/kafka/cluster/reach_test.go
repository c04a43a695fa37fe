package cluster_test

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

func TestSilentBrokersAreNamedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := cluster.Connection{Brokers: []string{"kafka-0:9092", "kafka-1:9092"}, Dial: silent}.Reach(t.Context())
		if waited := time.Since(begun); waited > 10*time.Second {
			t.Errorf("waited %v", waited)
		}
		for _, want := range []string{"no broker can be asked: kafka-", "kafka-0:9092: no answer", "kafka-1:9092: no answer"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want … %s", err, want)
			}
		}
		if advice := cluster.Advice(err); !strings.Contains(advice, "firewalls") {
			t.Errorf("advice: got %s", advice)
		}
	})
}

func TestOneBrokerThatAnswersIsEnough(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "silent:9092" {
			return silent(ctx, network, address)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	connection := cluster.Connection{Brokers: append([]string{"silent:9092"}, b.ListenAddrs()...), Dial: dial}
	if err := connection.Reach(t.Context()); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := connection.Reach(ended); err == nil || strings.Contains(err.Error(), "no broker") {
		t.Errorf("interrupted: got %v", err)
	}
}

func TestAdvertisedAddressThatLeadsNowhereIsNamed(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	advertised := b.ListenAddrs()[0]
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == advertised {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, advertised)
	}
	_, err := cluster.OpenReader(t.Context(), cluster.Connection{Brokers: []string{"forwarded:9092"}, Dial: dial})
	want := "forwarded:9092 answers, but no broker at the address that it advertises (advertised.listeners): " + advertised + ": "
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(cluster.Advice(err), "nothing listens") {
		t.Errorf("got %v, want %s", err, want)
	}
}

// silent is the way to a broker from which nothing comes.
func silent(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
