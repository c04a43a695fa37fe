// Package connector is the running sink: it builds the parts from the configuration,
// takes every record from its poll to its confirmation in one function (record in
// path.go), and ends everything that it started, last in first out.
package connector
