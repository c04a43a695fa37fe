package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Notes are entries in the order in which they came, on disk where memory has no room.
// They last as long as the process: what they are about is read again after a crash. They
// are for one goroutine at a time.
type Notes struct {
	dir     *Dir
	newName func() string
	pieces  []notesPiece // the first is read first
	head    []byte       // what is left of the first piece; nil: it was not read
	memory  []byte       // behind the pieces
	last    int          // where the last entry begins in memory; -1: it is elsewhere
}

// notesPiece are entries in memory, or a file.
type notesPiece struct {
	entries []byte
	name    string // "": they are in memory
	size    int64
}

const (
	notesPieceSize = 32 << 10 // bytes, then another piece is begun
	notesInMemory  = 8 << 20  // bytes that whole pieces take in memory, of all notes of a directory
	notesFileSize  = 1 << 20  // bytes, then another file is begun: one is in memory while it is read
)

// NewNotes returns some without an entry. newName names their files, each differently.
func NewNotes(dir *Dir, newName func() string) *Notes {
	return &Notes{dir: dir, newName: newName, last: -1}
}

// Append adds an entry. An error is the disk's, and the entry is not added.
func (n *Notes) Append(entry []byte) error {
	if len(n.memory) >= notesPieceSize {
		if err := n.seal(); err != nil {
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

// seal makes a piece of what is behind the pieces.
func (n *Notes) seal() error {
	size := int64(len(n.memory))
	if n.dir.notes.Add(size) > notesInMemory {
		n.dir.notes.Add(-size)
		return n.write()
	}
	n.pieces = append(n.pieces, notesPiece{entries: n.memory, size: size})
	n.memory, n.last = piecesRoom.Get().([]byte), -1
	return nil
}

// piecesRoom is room for pieces in memory: there is one for every 1,500 rows of files.
var piecesRoom = sync.Pool{New: func() any { return make([]byte, 0, notesPieceSize+256) }}

// write moves what is behind the pieces to the disk.
func (n *Notes) write() (err error) {
	last := len(n.pieces) - 1
	at := notesPiece{name: n.newName() + notesSuffix}
	begun := last >= 0 && n.pieces[last].name != "" && n.pieces[last].size < notesFileSize && (last > 0 || n.head == nil)
	if begun {
		at = n.pieces[last]
	}
	file, err := n.open(&at)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(n.memory, at.size); err != nil {
		_ = file.Truncate(at.size) // or the next attempt overwrites it
	}
	if err = errors.Join(err, file.Close()); err != nil {
		if !begun {
			n.dir.Remove(at.name)
		}
		return err
	}
	at.size += int64(len(n.memory))
	n.dir.resize(at.name, at.size)
	if begun {
		n.pieces[last] = at
	} else {
		n.pieces = append(n.pieces, at)
	}
	n.memory, n.last = n.memory[:0], -1
	return nil
}

func (n *Notes) open(at *notesPiece) (*os.File, error) {
	if at.size == 0 {
		return n.dir.Create(at.name)
	}
	return os.OpenFile(n.dir.Path(at.name), os.O_WRONLY, 0)
}

// Take gives entries to f from the first on, as long as it says that it has taken them.
// Those that it took are gone. An entry is lent. An error is the disk's; it may be called
// again.
func (n *Notes) Take(f func(entry []byte) (taken bool)) error {
	for len(n.pieces) > 0 {
		if n.head == nil {
			if err := n.read(&n.pieces[0]); err != nil {
				return err
			}
		}
		if n.head = take(n.head, f); len(n.head) > 0 {
			return nil
		}
		n.free(&n.pieces[0])
		n.pieces, n.head = n.pieces[1:], nil
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

// read makes the piece the one that is taken from.
func (n *Notes) read(first *notesPiece) error {
	if n.head = first.entries; first.name == "" {
		return nil
	}
	all, err := os.ReadFile(n.dir.Path(first.name))
	if err == nil && int64(len(all)) < first.size {
		err = fmt.Errorf("%s: %d of %d bytes are left", first.name, len(all), first.size)
	}
	if err != nil {
		return err
	}
	n.head = all[:first.size]
	return nil
}

// free gives back what a piece takes.
func (n *Notes) free(of *notesPiece) {
	if of.name != "" {
		n.dir.Remove(of.name)
		return
	}
	n.dir.notes.Add(-of.size)
	piecesRoom.Put(of.entries[:0]) //nolint:staticcheck // its header is nothing beside it
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
	for i := range n.pieces {
		n.free(&n.pieces[i])
	}
	*n = Notes{dir: n.dir, newName: n.newName, last: -1}
}
