//go:build linux || darwin

package spool

import "syscall"

// Free is how many bytes the file system of the directory has left for this process;
// ok is false if that is not known.
func (s *Dir) Free() (bytes int64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true //nolint:unconvert // their types differ by system
}
