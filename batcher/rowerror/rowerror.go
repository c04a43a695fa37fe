package rowerror

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"

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
	Marked bool   // the name of its file, or a column, says that it holds rows in error
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
	r := reading{formats: formats, errors: true, each: func(row Row) (bool, error) { return false, each(row) }}
	return r.file(file, nil)
}

// Without calls drop with every row of the files, in error or not, and writes the files to
// out without those of which it reports true: packed as they were, and every other row as it
// was. It returns how many it left out. With out nil it counts them only. It reads the
// import's own file as well.
func Without(file File, formats []Format, drop func(Row) bool, out io.Writer) (dropped int64, err error) {
	r := reading{formats: formats, each: func(row Row) (bool, error) { return drop(row), nil }}
	err = r.file(file, out)
	return r.dropped, err
}

// Lines calls each with every line of the files, whatever they are: headers, too. A line is
// lent.
func Lines(file File, each func(line []byte)) error {
	r := reading{line: each}
	return r.file(file, nil)
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
	magic := make([]byte, 4) // a CSV file may begin with PK, too
	n, err := file.ReadAt(magic, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("output files: %w", err)
	}
	if first := string(magic[:n]); first != "PK\x03\x04" && first != "PK\x05\x06" {
		return nil, nil
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return archive, nil
}
