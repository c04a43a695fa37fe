//go:build !linux && !darwin

package spool

// Disk is not known on this system.
func Disk(string) (free, size int64, ok bool) { return 0, 0, false }
