package batcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Suffixes of the files in the spool, beside sealed files named
// mapping-time-random.operation.csv[.gz|.zip].
const (
	lockName      = "lock"     // of the process that owns the directory
	journalSuffix = ".journal" // rows of an open file
	partSuffix    = ".part"    // a file on its way to being sealed
	failedSuffix  = ".failed"  // kept: the service refused to load it
	errorsSuffix  = ".errors"  // kept: output files of an import, because they were asked for or do not name all rows in error
)

// ours matches every name this package gives; the first group is the mapping.
// What does not match is never touched.
var ours = regexp.MustCompile(`^(.+)-\d{8}T\d{6}Z-[a-z2-7]{6}(?:\.journal|\.(?:upsert|patch|create|delete)\d*\.csv(?:\.gz|\.zip)?(?:\.failed|(?:\.errors)?(?:\.part)?))$`)

// errLocked says that another process has the directory.
var errLocked = errors.New("locked")

// spool is the directory of files and what they take on disk. One process owns
// it at a time.
type spool struct {
	dir  string
	lock *os.File

	mu      sync.Mutex
	sizes   map[string]int64 // bytes by name; journals, sealed and kept files
	total   int64
	outputs int64  // bytes of output files on their way
	spare   []byte // for the next segment to be ordered in; nil: in use
}

// take hands out n bytes for a segment to be ordered in, until they are laid
// back. One piece is enough: segments are ordered one at a time, or nearly so.
func (s *spool) take(n int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.spare
	s.spare = nil
	if cap(b) < n {
		b = make([]byte, n, n+n/8) // the next one may be a little larger
	}
	return b[:n]
}

func (s *spool) lay(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(b) <= 2*segmentSize { // one huge row must not be held for ever
		s.spare = b
	}
}

// openSpool takes the directory over and removes what the last process left,
// except kept files: offsets of open and sealed files are not committed, their
// records are read again.
func openSpool(dir string) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("in use by another process; give each its own spool.dir: %w", err)
	}
	if err != nil {
		return nil, err
	}
	s := &spool{dir: dir, lock: lock, sizes: map[string]int64{}}
	if err := s.sweep(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

func (s *spool) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !ours.MatchString(e.Name()) {
			continue
		}
		if isKept(e.Name()) {
			info, err := e.Info()
			if err != nil {
				return err
			}
			s.resize(e.Name(), info.Size())
		} else if err := os.Remove(s.path(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func isKept(name string) bool {
	return strings.HasSuffix(name, failedSuffix) || strings.HasSuffix(name, errorsSuffix)
}

func (s *spool) path(name string) string { return filepath.Join(s.dir, name) }

// create makes a file that only its owner reads: it holds customers' data.
func (s *spool) create(name string) (*os.File, error) {
	file, err := s.createHere(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := s.restore(); err != nil {
		return nil, fmt.Errorf("spool: the directory is gone and cannot be made anew: %w", err)
	}
	return s.createHere(name)
}

func (s *spool) createHere(name string) (*os.File, error) {
	return os.OpenFile(s.path(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// restore makes a directory that somebody removed anew, and its lock with it: the
// one that is held is of a file without a name, which keeps nobody out. What a
// volume was mounted on is still there without it, and is not made here.
func (s *spool) restore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) { // another mapping's file was first
			return nil
		}
		return err
	}
	lock, err := lockFile(filepath.Join(s.dir, lockName))
	if err != nil {
		return err
	}
	lock, s.lock = s.lock, lock
	return lock.Close()
}

// lacks reports whether a file that was sealed is there no more.
func (s *spool) lacks(name string) bool {
	_, err := os.Stat(s.path(name))
	return errors.Is(err, fs.ErrNotExist)
}

// seal gives a file that is complete on disk its final name: synced first and the
// directory after, so that the name never stands for half a file.
func (s *spool) seal(file *os.File, name string) (size int64, err error) {
	temporary := file.Name()
	info, err := file.Stat()
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, s.path(name)); err != nil {
		return 0, errors.Join(err, os.Remove(temporary))
	}
	s.resize(name, info.Size())
	return info.Size(), syncDir(s.dir)
}

func (s *spool) rename(from, to string) error {
	if err := os.Rename(s.path(from), s.path(to)); err != nil {
		return err
	}
	s.mu.Lock()
	size := s.sizes[from]
	s.mu.Unlock()
	s.resize(from, 0)
	s.resize(to, size)
	return syncDir(s.dir)
}

// remove drops a file. One that cannot be removed goes on counting as used, and
// the next start tries again.
func (s *spool) remove(name string) {
	if err := os.Remove(s.path(name)); err == nil || errors.Is(err, fs.ErrNotExist) {
		s.resize(name, 0)
	}
}

// resize notes the size of a file; 0 forgets it.
func (s *spool) resize(name string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += size - s.sizes[name]
	if s.sizes[name] = size; size == 0 {
		delete(s.sizes, name)
	}
}

func (s *spool) used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// kept lists the mapping's kept files by name.
func (s *spool) kept(mapping string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.sizes {
		if m := ours.FindStringSubmatch(name); m != nil && m[1] == mapping && isKept(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// close gives the directory up; a second call is harmless.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lock.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
