// Package rowerror reads the output files of an import (operation 12): which
// rows are in error, by the value of their key column, and why.
//
// What the files look like the interface leaves open. They are told by content:
// CSV, GZIP or a ZIP of several; rows in error apart from accepted ones by the
// names of files and columns; the files of a bundle apart by their names, by the
// columns, or by a column that names the file. The package knows CSV and words. It
// knows nothing about imports, Kafka, or what becomes of a row.
package rowerror
