//go:build !linux && !darwin

package spool

// Free is not known on this system.
func (s *Dir) Free() (bytes int64, ok bool) { return 0, false }
