// Package writes makes of each write the one operation of the interface that it means
// (interface.md, operations 1 to 7), and says why one was refused. Of a create that
// meets a record of its key it tells whether that is its own.
package writes
