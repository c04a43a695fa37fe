// Package spool keeps rows on disk until they are sent: a journal takes writes as
// encoded rows in the order of their arrival, folding leaves for each key what is
// left of them, and sealing writes that as the CSV files that the service loads.
// It knows tables' columns and the file format (interface.md, operations 8 to 10),
// and nothing of imports, mappings or Kafka.
//
// Nothing in an open journal survives a crash, since the offsets of its records are
// not committed. Sealed files are complete, synced and of their final name.
package spool
