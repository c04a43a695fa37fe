//go:build simulation

package simulation

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "unsafe" // for linkname
)

// syncFile is what the spool has a disk keep its files with.
//
//go:linkname syncFile github.com/feedsink/feedsink/batcher/spool.syncFile
var syncFile func(*os.File) error

// disks are those of all members, by the folders of their spools.
type disks struct {
	mu    sync.Mutex
	slow  map[string]time.Duration     // that it takes to have something kept
	busy  map[string]int               // files and names that are about to be kept
	sizes map[uint64]int64             // bytes of each file that are kept, by inode
	names map[string]map[string]uint64 // that are kept, and the inodes that they stand for
}

func newDisks() *disks {
	d := &disks{slow: map[string]time.Duration{}, busy: map[string]int{}, sizes: map[uint64]int64{}, names: map[string]map[string]uint64{}}
	syncFile = d.sync
	return d
}

// sync has the disk keep a file as it is, or the names in a folder as they are.
func (d *disks) sync(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	folder := f.Name()
	if !info.IsDir() {
		folder = filepath.Dir(folder)
	}
	d.mu.Lock()
	d.busy[folder]++
	takes := d.slow[folder]
	d.mu.Unlock()
	time.Sleep(takes)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy[folder]--
	if !info.IsDir() {
		d.sizes[inode(info)] = info.Size()
		return nil
	}
	names, err := inodes(folder)
	if err == nil {
		d.names[folder] = names
	}
	return err
}

// holds has the disk keep all that is in a folder, as one that was copied whole.
func (d *disks) holds(folder string) error {
	names, err := inodes(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[folder] = names
	for name, file := range names {
		info, e := os.Stat(filepath.Join(folder, name))
		if err = errors.Join(err, e); e == nil {
			d.sizes[file] = info.Size()
		}
	}
	return err
}

// inode tells a file from others of its disk.
func inode(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

func inodes(folder string) (map[string]uint64, error) {
	files, err := os.ReadDir(folder)
	names := map[string]uint64{}
	for _, f := range files {
		info, e := f.Info()
		if err = errors.Join(err, e); e == nil {
			names[f.Name()] = inode(info)
		}
	}
	return names, err
}

// losePower leaves of a spool's copy what its disk had kept. What is there for a person has
// to be, unless the disk was about to keep it.
func (w *world) losePower(spool, copied string) {
	d := w.disks
	d.mu.Lock()
	defer d.mu.Unlock()
	names, err := inodes(spool)
	if errors.Is(err, os.ErrNotExist) {
		return // no files, no spool
	}
	for name, file := range names {
		known := d.names[spool][name] == file
		size, synced := d.sizes[file]
		if isKept(name) && (!known || !synced) && d.busy[spool] == 0 {
			w.fail("%s is not on the disk when the power goes: name %v, content %v", name, known, synced)
		}
		at := filepath.Join(copied, name)
		switch {
		case name == "lock":
		case !known && w.rnd.IntN(2) == 0:
			err = errors.Join(err, os.Remove(at))
		default:
			err = errors.Join(err, os.Truncate(at, size))
		}
	}
	if err != nil {
		w.fail("the power goes: %v", err)
	}
}

// slowDisk has a member's disk take its time.
func (w *world) slowDisk() (string, func(), time.Duration) {
	m := w.some()
	takes, spool := w.between(100*time.Millisecond, time.Minute), m.spool
	set := func(takes time.Duration) {
		w.disks.mu.Lock()
		defer w.disks.mu.Unlock()
		w.disks.slow[spool] = takes
	}
	set(takes)
	return "the disk of " + m.process.name + " is slow", func() { set(0) }, w.between(10*time.Second, 20*time.Minute)
}

// patience is how much longer a process may take to stop or to reload where a disk is slow: what a
// file, its journals and their folder take, one after the other.
func (d *disks) patience() (most time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, takes := range d.slow {
		most = max(most, takes)
	}
	return 6 * most
}

// isKept reports whether a file of a spool is there for a person.
func isKept(name string) bool {
	return strings.HasSuffix(name, ".failed") || strings.HasSuffix(name, ".errors")
}

// judgeKept reads a file that was kept because the service refused it.
func judgeKept(name string) error {
	if !strings.HasSuffix(name, ".gz.failed") {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, packed)
	return err
}
