// Package oneshot imports one file by hand: it looks through the file before one of
// the table's few imports of the day is spent on it, launches the execution
// (operation 8), waits for its end (11) and fetches what it says of rows in error
// (12).
//
// It knows files, definitions and executions. It knows nothing about mappings,
// slots, Kafka or the sink that may be running beside it.
package oneshot
