// Package decode reads records: it decodes keys and values in the formats of their
// topics and has them routed. A Reader is one goroutine's.
package decode
