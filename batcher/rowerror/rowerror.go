package rowerror

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/encoding"
)

// Format is how the definition of the import says that its files are written,
// and what their columns are.
type Format struct {
	Separator, Enclosing byte
	Encoding             encoding.Encoding // nil: UTF-8
	Key                  string            // header of the key's column
	Columns              []string          // headers that the import's own files may have
	File                 string            // name of the import's file, which names of output files may repeat
	Table                string            // likewise; it tells the files of a bundle apart
}

// Row is a row in error.
type Row struct {
	Header []string // of its file; the same slice for all rows of one
	Cells  []string
	Key    string // "" where the file has no such column
	Reason string // the service's words, at most 500 characters; "" where it has none
	Of     []int  // the formats that the row may have; several where nothing tells which
}

// ErrUnreadable wraps what is wrong with a file that is no CSV, GZIP or ZIP. Rows
// before the place have been handed on.
var ErrUnreadable = errors.New("the output files cannot be read")

// File is output files as they came.
type File interface {
	io.Reader
	io.ReaderAt
	io.Seeker
}

// Read calls each with every row in error, and ends with the first error of it.
// formats are one, or one for each file of an import of several. Memory follows
// the longest row, which is bounded.
func Read(file File, formats []Format, each func(Row) error) error {
	r := reading{formats: formats, each: each}
	archive, err := open(file)
	if err != nil {
		return err
	}
	if archive == nil {
		return r.text("", file)
	}
	for _, entry := range archive.File {
		if entry.FileInfo().IsDir() {
			continue
		}
		if err := r.entry(entry); err != nil {
			return err
		}
	}
	return nil
}

// open looks at output files from their begin: nil where they are no ZIP.
func open(file File) (*zip.Reader, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("output files: %w", err)
	}
	magic := make([]byte, 2)
	n, err := file.ReadAt(magic, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("output files: %w", err)
	}
	if string(magic[:n]) != "PK" {
		return nil, nil
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return archive, nil
}

// reading is one call of Read.
type reading struct {
	formats []Format
	each    func(Row) error
}

func (r *reading) entry(entry *zip.File) error {
	in, err := entry.Open()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	err = r.text(entry.Name, in)
	return errors.Join(err, in.Close())
}

// text reads one file, GZIP or plain; name is "" where none is known.
func (r *reading) text(name string, in io.Reader) error {
	buffered := bufio.NewReaderSize(in, headLength)
	magic, _ := buffered.Peek(2) // what keeps it from being read shows below
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		buffered = bufio.NewReaderSize(z, headLength)
	}
	of := r.formatsOf(name, buffered)
	f := r.formats[of[0]]
	csv := newReader(buffered, f)
	header, err := csv.header(f.Key)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	l := f.layout(name, header)
	for {
		cells, err := csv.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if !l.inError(cells) {
			continue
		}
		row := Row{Header: header, Cells: cells, Reason: l.reason(cells), Of: r.toldBy(of, l, cells)}
		if l.key >= 0 && l.key < len(cells) {
			row.Key = cells[l.key]
		}
		if err := r.each(row); err != nil {
			return err
		}
	}
}
