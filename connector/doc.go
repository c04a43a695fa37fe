// Package connector is the running sink: it assembles the rooms, takes every
// record from the poll to its confirmation in one function (pipeline.go), and
// ends everything it started, last in first out.
package connector
