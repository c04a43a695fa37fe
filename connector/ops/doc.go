// Package ops does what commands do beside running the sink: check, plan, create
// ETLs, replay dead letters, import a file by hand. Each takes the configuration, says
// what it found or did, and has the exit of a command in mind, not its flags.
package ops
