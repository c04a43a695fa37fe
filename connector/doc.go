// Package connector is the running sink: it assembles the rooms, takes every
// record from the poll to its confirmation in one function (pipeline.go), and
// ends everything it started, last in first out. Where rows wait by the thousand,
// what they are is found out before their turn, on all processors (ahead.go).
package connector
