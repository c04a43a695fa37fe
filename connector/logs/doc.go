// Package logs is the log of a process: how its lines look, how much of it there
// is, which can be changed while the process runs, and that lines which repeat one
// another are written once a minute, with how many were left out.
//
// It knows lines and their attributes. It knows nothing of what they are about.
package logs
