// Package simulation runs the whole sink in one process and in virtual time: real
// members with real spools, a broker and the service in memory, and a network between
// them that takes its time and is cut. A seed decides the configuration, the load and
// what goes wrong. What the tables, the dead-letter topic and the service's executions
// say in the end is compared with a model that knows the events alone.
//
//	make simulate SEEDS=20
//	make simulate SEED=7
//
// What a bubble of [testing/synctest] needs: connections in memory, and no mutex that is
// held while time has to go on. CONTRIBUTING.md says how to read a transcript and how
// to add a fault.
package simulation
