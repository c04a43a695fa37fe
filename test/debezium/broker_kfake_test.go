//go:build debezium && !kafka

package debezium_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

func broker(t *testing.T) string {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}
