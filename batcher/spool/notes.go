package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// Notes are entries in the order in which they came, on disk but for the last of them.
// They last as long as the process: what they are about is read again after a crash. They
// are for one goroutine at a time.
type Notes struct {
	dir     *Dir
	newName func() string
	files   []notesFile // the first is read first, the last is written
	head    []byte      // of the first file, what is left of it; nil: it was not read
	memory  []byte      // behind the files
	last    int         // where the last entry begins in memory; -1: it is elsewhere
}

type notesFile struct {
	name string
	size int64
}

const (
	notesInMemory = 32 << 10 // bytes, then they are written
	notesFileSize = 1 << 20  // bytes, then another file is begun: one is in memory while it is read
)

// NewNotes returns some without an entry. newName names their files, each differently.
func NewNotes(dir *Dir, newName func() string) *Notes {
	return &Notes{dir: dir, newName: newName, last: -1}
}

// Append adds an entry. An error is the disk's, and the entry is not added.
func (n *Notes) Append(entry []byte) error {
	if len(n.memory) >= notesInMemory {
		if err := n.write(); err != nil {
			return err
		}
	}
	n.last = len(n.memory)
	n.memory = append(binary.AppendUvarint(n.memory, uint64(len(entry))), entry...)
	return nil
}

// Withdraw takes the entry back that was appended last. There is one; it reports false if that
// was taken.
func (n *Notes) Withdraw() bool {
	if n.last < 0 {
		return false
	}
	n.memory, n.last = n.memory[:n.last], -1
	return true
}

// write moves what is in memory to the disk.
func (n *Notes) write() (err error) {
	if len(n.files) == 0 || n.files[len(n.files)-1].size >= notesFileSize || len(n.files) == 1 && n.head != nil {
		n.files = append(n.files, notesFile{name: n.newName() + NotesSuffix})
	}
	at := &n.files[len(n.files)-1]
	file, err := n.open(at)
	if err != nil {
		return err
	}
	// What a try before has written of it is written over.
	_, err = file.WriteAt(n.memory, at.size)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	at.size += int64(len(n.memory))
	n.dir.resize(at.name, at.size)
	n.memory, n.last = n.memory[:0], -1
	return nil
}

func (n *Notes) open(at *notesFile) (*os.File, error) {
	if at.size == 0 {
		return n.dir.Create(at.name)
	}
	return os.OpenFile(n.dir.Path(at.name), os.O_WRONLY, 0)
}

// Take gives entries to f from the first on, as long as it says that it has taken them.
// Those that it took are gone. An entry is lent. An error is the disk's; it may be called
// again.
func (n *Notes) Take(f func(entry []byte) (taken bool)) error {
	for len(n.files) > 0 {
		if n.head == nil {
			all, err := os.ReadFile(n.dir.Path(n.files[0].name))
			if err == nil && int64(len(all)) < n.files[0].size {
				err = fmt.Errorf("%s: %d of %d bytes are left", n.files[0].name, len(all), n.files[0].size)
			}
			if err != nil {
				return err
			}
			n.head = all[:n.files[0].size]
		}
		if n.head = take(n.head, f); len(n.head) > 0 {
			return nil
		}
		n.dir.Remove(n.files[0].name)
		n.files, n.head = n.files[1:], nil
	}
	rest := take(n.memory, f)
	if gone := len(n.memory) - len(rest); gone > 0 {
		if n.last -= gone; n.last < 0 {
			n.last = -1
		}
		n.memory = n.memory[:copy(n.memory, rest)]
	}
	return nil
}

// take gives entries to f and returns the rest.
func take(entries []byte, f func([]byte) bool) (rest []byte) {
	for len(entries) > 0 {
		size, n := binary.Uvarint(entries)
		entry := entries[n : n+int(size)]
		if !f(entry) {
			break
		}
		entries = entries[n+int(size):]
	}
	return entries
}

// Drop frees what the notes take; they are empty then.
func (n *Notes) Drop() {
	for _, file := range n.files {
		n.dir.Remove(file.name)
	}
	*n = Notes{dir: n.dir, newName: n.newName, last: -1}
}
