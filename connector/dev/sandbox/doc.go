// Package sandbox is the marketing service itself, in process: the tables, the
// tokens and rights, the executions that take their time, the file locations,
// the slots of the day and the errors, answered over HTTP as the interface's
// document describes them. It is what tests and local trials run against instead
// of the real service, and has a page for people who look on.
//
// It writes every wire shape on its own and imports nothing else of this
// module: a mistake in the client must meet a service that does not share it.
// It knows nothing about Kafka, mappings or lanes.
//
// Where the document says "not shown" the sandbox makes one choice and states
// it beside the code; Config.Shapes offers the other answers that a client has
// to live with.
package sandbox
