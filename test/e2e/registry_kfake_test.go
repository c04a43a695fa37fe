//go:build !kafka

package e2e_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// schemaRegistry starts a registry for the test alone.
func schemaRegistry(t *testing.T) (url string) {
	registry := srfake.New()
	t.Cleanup(registry.Close)
	return registry.URL()
}
