// Package journeys tells stories: a broker, the service and one or more sinks
// act in turn, and what can be seen of them afterwards is the story's text. Each
// file of testdata is one story, a list of commands with their output below;
// `go test ./test/journeys -rewrite` writes the output anew.
//
// A story shows nothing that differs from run to run: rows, calls and dead
// letters are sorted, file names and times are masked, and a command that waits
// says only that it came about.
package journeys
