// Package logs is the log of a process: how its lines look, how much of it there
// is, which can be changed while the process runs, and that what is said again and
// again is said once and then counted.
//
// It knows lines and their attributes. It knows nothing of what they are about.
package logs
