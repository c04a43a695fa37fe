//go:build kafka && !image

package e2e_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/test/certs"
)

// wayOf leaves the way to the brokers to the tests of their listeners.
func wayOf(t *testing.T, _ *config.Kafka, _ *certs.Authority) (s access, asItIs bool) {
	t.Helper()
	return usual(t), false
}
