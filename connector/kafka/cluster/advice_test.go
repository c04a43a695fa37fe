package cluster_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// A new cluster has no coordinator until it was asked for one.
func TestNewClusterIsNoMistakeOfTheConfiguration(t *testing.T) {
	err := &kadm.ShardErrors{Name: "DescribeGroups", Errs: []kadm.ShardError{{Err: kerr.CoordinatorNotAvailable}}}
	if got := cluster.Advice(err); !strings.Contains(got, "try again in a minute") {
		t.Errorf("advice on %v: got %q, want to try again", err, got)
	}
}
