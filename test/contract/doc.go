// Package contract holds what the client, the sandbox and the published OpenAPI
// document owe each other: its tests make every call of the client against a
// sandbox and validate each request and each answer against the document, and
// keep the table of what is covered where (COVERAGE.md) complete.
//
// With the build tag prism the same calls go to a mock that a foreign tool makes
// of the document (make contract). It knows nothing about Kafka, lanes or
// configuration.
package contract
