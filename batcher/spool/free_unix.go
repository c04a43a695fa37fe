//go:build linux || darwin

package spool

import "syscall"

// Disk is how many bytes the file system of a directory has left for this process, and
// how many it has in all; ok is false if that is not known.
func Disk(dir string) (free, size int64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, false
	}
	block := int64(st.Bsize) //nolint:unconvert // its type differs by system
	return int64(st.Bavail) * block, int64(st.Blocks) * block, true
}
