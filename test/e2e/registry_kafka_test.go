//go:build kafka

package e2e_test

import (
	"testing"

	"github.com/feedsink/feedsink/test/kafka"
)

// schemaRegistry starts a real registry for the test alone.
func schemaRegistry(t *testing.T) (url string) { return kafka.RegistryForTest(t).URL() }
