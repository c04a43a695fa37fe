//go:build !unix

package spool

import "os"

// lockFile opens the file without a lock: elsewhere than on Unix the sink is
// run by hand, by one developer.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

func unlock(f *os.File) error { return f.Close() }

// syncDir does nothing: directories cannot be synced here.
func syncDir(string) error { return nil }

// InUse does not know.
func InUse(string) bool { return false }
