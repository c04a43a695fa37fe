//go:build debezium && kafka

package debezium_test

import (
	"testing"

	"github.com/feedsink/feedsink/test/kafka"
)

func broker(t *testing.T) string { return kafka.ForTest(t, kafka.Options{}).Addr() }
