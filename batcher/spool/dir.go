package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Suffixes of the files in the spool, beside sealed files named
// mapping-time-random.operation.csv[.gz|.zip].
const (
	lockName      = "lock"      // of the process that owns the directory
	JournalSuffix = ".journal"  // rows of an open file
	notesSuffix   = ".receipts" // notes of what receipts will be written of
	partSuffix    = ".part"     // a file on its way to being sealed
	FailedSuffix  = ".failed"   // kept: the service refused to load it
	errorsSuffix  = ".errors"   // kept: output files of an import, because they were asked for or do not name all rows in error
)

// ours matches every name this package gives; the first group is the mapping, the
// second the operation of a file, the third its round unless that is the first. What does not match is never touched.
var ours = regexp.MustCompile(`^(.+)-\d{8}T\d{6}Z-[a-z2-7]{6}(?:\.journal|\.receipts|\.(upsert|patch|merge|create|delete)(\d*)(?:-\d+)?\.csv(?:\.gz|\.zip)?(?:\.failed|\.errors)?(?:\.part)?)$`)

// OpOf is the operation of a sealed file's rows, as its name says; 0 of any other name.
func OpOf(file string) schemas.Op { return RankOf(file).Op }

// RankOf is that of a sealed file's rows, as its name says; zero of any other name.
func RankOf(file string) Rank {
	m := ours.FindStringSubmatch(file)
	if m == nil {
		return Rank{}
	}
	op, _ := schemas.ParseOp(m[2])
	round, _ := strconv.Atoi(cmp.Or(m[3], "1"))
	return Rank{op, round - 1}
}

// NewName is a name for files of a mapping that no others of it have.
func NewName(mapping string, rnd *rand.Rand) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = alphabet[rnd.IntN(len(alphabet))]
	}
	return mapping + "-" + time.Now().UTC().Format(nameTime) + "-" + string(suffix)
}

const nameTime = "20060102T150405Z"

// NamedAt is when a sealed file was given its name; zero of any other name.
func NamedAt(file string) time.Time {
	m := ours.FindStringSubmatch(file)
	if m == nil {
		return time.Time{}
	}
	at, _ := time.Parse(nameTime, file[len(m[1])+1:][:len(nameTime)]) // a day that no calendar has: zero
	return at
}

// errLocked says that another process has the directory.
var errLocked = errors.New("locked")

// Dir is the directory of files and what they take on disk. One process owns
// it at a time.
type Dir struct {
	dir   string
	lock  *os.File
	notes atomic.Int64 // bytes of whole pieces of notes in memory

	mu      sync.Mutex
	sizes   map[string]int64  // bytes by name; journals, sealed and kept files
	kept    map[string]string // of the kept ones: their mappings, by name
	total   int64
	outputs int64  // bytes of output files on their way
	spare   []byte // for the next segment to be ordered in; nil: in use
}

// take hands out n bytes for a segment to be ordered in, until they are laid
// back. One piece is enough: segments are ordered one at a time, or nearly so.
func (s *Dir) take(n int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.spare
	s.spare = nil
	if cap(b) < n {
		b = make([]byte, n, n+n/8) // the next one may be a little larger
	}
	return b[:n]
}

func (s *Dir) lay(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(b) <= 2*SegmentSize { // one huge row must not be held indefinitely
		s.spare = b
	}
}

// Open takes the directory over and removes what the last process left,
// except kept files: offsets of open and sealed files are not committed, their
// records are read again.
func Open(dir string) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unusable(err)
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("in use by another process; give each its own spool.dir: %w", err)
	}
	if err != nil {
		return nil, unusable(err)
	}
	s := &Dir{dir: dir, lock: lock, sizes: map[string]int64{}, kept: map[string]string{}}
	if err := s.sweep(); err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	return s, nil
}

// Clear removes what a former process left in a directory that is not used any more, as Open does. Where
// another process has it, or there is none, nothing is done.
func Clear(dir string, log *slog.Logger) {
	entries, _ := os.ReadDir(dir) // none of one that is not there, or that this process may not read
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return ours.MatchString(e.Name()) && !isKept(e.Name()) }) {
		return
	}
	s, err := Open(dir)
	if err == nil {
		err = s.Close()
	}
	if err != nil && !errors.Is(err, errLocked) {
		log.Warn("no mapping uses the batch lane any more, and its files cannot be removed: they hold customers' data. Remove them by hand", "dir", dir, "error", err)
	}
}

// Free is what Disk says is left for the directory.
func (s *Dir) Free() (bytes int64, ok bool) {
	bytes, _, ok = Disk(s.dir)
	return bytes, ok
}

// Writable says why this process cannot create directories in one, nil if it can. It
// creates one and removes it.
func Writable(dir string) error {
	probe, err := os.MkdirTemp(dir, "feedsink-check-")
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

// unusable says what to do about a directory that cannot be created or written.
func unusable(err error) error {
	return fmt.Errorf("%w; name a directory that the sink's user may write", err)
}

func (s *Dir) sweep() error {
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
		} else if err := os.Remove(s.Path(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func isKept(name string) bool {
	return strings.HasSuffix(name, FailedSuffix) || strings.HasSuffix(name, errorsSuffix)
}

// Path is where a file of the directory is.
func (s *Dir) Path(name string) string { return filepath.Join(s.dir, name) }

// Create makes a file that only its owner reads: it holds customers' data.
func (s *Dir) Create(name string) (*os.File, error) {
	file, err := s.createHere(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := s.restore(); err != nil {
		return nil, fmt.Errorf("spool: the directory is gone and cannot be made anew: %w", err)
	}
	return s.createHere(name)
}

func (s *Dir) createHere(name string) (*os.File, error) {
	return os.OpenFile(s.Path(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// restore makes a directory that somebody removed anew, and its lock with it: the
// one that is held is of a file without a name, which keeps no process out. What a
// volume was mounted on is still there without it, and is not made here.
func (s *Dir) restore() error {
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
	return unlock(lock)
}

// Lacks reports whether a file that was sealed is there no more.
func (s *Dir) Lacks(name string) bool {
	_, err := os.Stat(s.Path(name))
	return errors.Is(err, fs.ErrNotExist)
}

// syncFile waits until what was written to a file, or the names in a directory, survive a power failure. The
// simulation has disks of its own here.
var syncFile = (*os.File).Sync

// seal gives a file that is complete on disk its final name: synced first and the
// directory after, so that the name never stands for half a file.
func (s *Dir) seal(file *os.File, name string) (size int64, err error) {
	temporary := file.Name()
	info, err := file.Stat()
	if err == nil {
		err = syncFile(file)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, s.Path(name)); err != nil {
		return 0, errors.Join(err, os.Remove(temporary))
	}
	s.resize(name, info.Size())
	return info.Size(), syncDir(s.dir)
}

// Rename gives a file another name, which survives a crash once it returns.
func (s *Dir) Rename(from, to string) error {
	if err := os.Rename(s.Path(from), s.Path(to)); err != nil {
		return err
	}
	s.mu.Lock()
	size := s.sizes[from]
	s.mu.Unlock()
	s.resize(from, 0)
	s.resize(to, size)
	return syncDir(s.dir)
}

// As gives a sealed file the name that a former one of the same rows had, and answers the
// name that it has then: a copy that was kept of the former one is replaced when it is kept,
// too. One of another kind keeps its own.
func (s *Dir) As(name, former string) string {
	if OpOf(former) == 0 || OpOf(name) != OpOf(former) || filepath.Ext(name) != filepath.Ext(former) {
		return name
	}
	if err := s.Rename(name, former); err != nil && !s.Lacks(name) {
		return name
	}
	return former
}

// Remove drops a file. One that cannot be removed goes on counting as used, and
// the next start tries again. An import without rows has no file, and no name: that
// would be the directory, which may be a link to a volume.
func (s *Dir) Remove(name string) {
	if name == "" {
		return
	}
	if err := os.Remove(s.Path(name)); err == nil || errors.Is(err, fs.ErrNotExist) {
		s.resize(name, 0)
	}
}

// resize notes the size of a file; 0 forgets it.
func (s *Dir) resize(name string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += size - s.sizes[name]
	if s.sizes[name] = size; size == 0 {
		delete(s.sizes, name)
	}
	if !isKept(name) {
		return
	}
	delete(s.kept, name)
	if m := ours.FindStringSubmatch(name); m != nil && size > 0 {
		s.kept[name] = m[1]
	}
}

// Used is what the files take, in bytes.
func (s *Dir) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Kept lists the mapping's kept files by name.
func (s *Dir) Kept(mapping string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, of := range s.kept { // few: each mapping asks, while another may have thousands of files
		if of == mapping {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Close gives the directory up; a second call is harmless.
func (s *Dir) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := unlock(s.lock); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
