//go:build !kafka

package e2e_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

func startBroker() (stop func(), err error) { return func() {}, nil }

// brokers starts a broker for the test alone.
func brokers(t *testing.T) []string {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()
}
