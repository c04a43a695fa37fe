package spool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Kind is what a file in the spool is.
type Kind uint8

// The kinds: a journal of an open file, a file of an import, one on its way to
// being sealed, and one that is kept for a person.
const (
	Journaled Kind = iota + 1
	Sealed
	Unfinished
	KeptFailed
	KeptOutputs
)

// Listed is a file in the spool.
type Listed struct {
	Name    string
	Mapping string // or bundle
	Kind    Kind
	File    string // the sealed file that it is, becomes or was kept of; "" of a journal
}

// List tells which files of mappings and bundles are in a directory that another process
// may have open, by name. One that is not there has none. Notes are not among them: they have
// no data of rows.
func List(dir string) (list []Listed, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	for _, e := range entries {
		m := ours.FindStringSubmatch(e.Name())
		if !e.Type().IsRegular() || m == nil || strings.HasSuffix(e.Name(), notesSuffix) {
			continue
		}
		l := listed(e.Name())
		l.Mapping = m[1]
		list = append(list, l)
	}
	return list, nil
}

func listed(name string) Listed {
	l := Listed{Name: name, Kind: Sealed, File: name}
	for _, s := range []struct {
		suffix string
		kind   Kind
	}{{partSuffix, Unfinished}, {FailedSuffix, KeptFailed}, {errorsSuffix, KeptOutputs}} {
		if file, is := strings.CutSuffix(l.File, s.suffix); is {
			l.File = file
			if l.Kind == Sealed {
				l.Kind = s.kind
			}
		}
	}
	if strings.HasSuffix(name, JournalSuffix) {
		return Listed{Name: name, Kind: Journaled}
	}
	return l
}

// RowsOf counts the rows of a key in a journal's file, which another process may be
// appending to. Those in that one's memory are not in it yet. The hash of the key tells them,
// whatever the encoding of the cells.
func RowsOf(path, key string) (rows int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	in, hash := bufio.NewReaderSize(file, 1<<20), xxhash.Sum64String(key)
	for {
		head, err := in.Peek(entryHead)
		if errors.Is(err, io.EOF) {
			return rows, nil // or amid an entry that is being written
		}
		if err != nil {
			return rows, err
		}
		size := int(binary.LittleEndian.Uint32(head))
		if size < entryHead {
			return rows, nil // not written yet
		}
		of := binary.LittleEndian.Uint64(head[entryHash:]) == hash
		if _, err := in.Discard(size); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return rows, err
		}
		if of {
			rows++
		}
	}
}

// Rewrite replaces a kept file by what write makes of it, so that a crash leaves one or
// the other. A process that has it open goes on with the old one.
func Rewrite(dir, name string, write func(from *os.File, to io.Writer) error) error {
	from, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(filepath.Join(dir, name+partSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(to, 1<<16)
	if err = write(from, buffered); err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = syncFile(to)
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(to.Name()))
	}
	if err := os.Rename(to.Name(), from.Name()); err != nil {
		return errors.Join(err, os.Remove(to.Name()))
	}
	return syncDir(dir)
}
