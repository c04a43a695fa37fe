package rowerror

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/transform"
)

// Without calls drop with every row of the files, in error or not, and writes the files to
// out without those of which it reports true: packed as they were, and every other row as it
// was. It returns how many it left out. With out nil it counts them only. It reads the
// import's own file as well.
func Without(file File, formats []Format, drop func(Row) bool, out io.Writer) (dropped int64, err error) {
	w := without{reading: reading{formats: formats}, drop: drop}
	archive, err := open(file)
	switch {
	case err != nil:
		return 0, err
	case archive == nil:
		err = w.text("", file, out)
	default:
		err = w.archive(archive, out)
	}
	return w.dropped, err
}

// without is one call of Without.
type without struct {
	reading
	drop    func(Row) bool
	dropped int64
}

func (w *without) archive(archive *zip.Reader, out io.Writer) error {
	var packed *zip.Writer
	if out != nil {
		packed = zip.NewWriter(out)
	}
	for _, entry := range archive.File {
		if err := w.entry(entry, packed); err != nil {
			return err
		}
	}
	if packed == nil {
		return nil
	}
	return packed.Close()
}

// entry copies one file of a ZIP; packed is nil where nothing is written.
func (w *without) entry(entry *zip.File, packed *zip.Writer) error {
	var out io.Writer
	if packed != nil {
		var err error
		if out, err = packed.CreateHeader(&zip.FileHeader{Name: entry.Name, Method: entry.Method, Modified: entry.Modified}); err != nil {
			return err
		}
	}
	if entry.FileInfo().IsDir() {
		return nil
	}
	in, err := entry.Open()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return errors.Join(w.text(entry.Name, in, out), in.Close())
}

// text copies one file, GZIP or plain; with out nil it is only read.
func (w *without) text(name string, in io.Reader, out io.Writer) error {
	buffered := bufio.NewReaderSize(in, headLength)
	magic, _ := buffered.Peek(2) // what keeps it from being read shows below
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return w.plain(name, buffered, out)
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	unpacked := bufio.NewReaderSize(z, headLength)
	if out == nil {
		return w.plain(name, unpacked, nil)
	}
	packed := gzip.NewWriter(out)
	if err := w.plain(name, unpacked, packed); err != nil {
		return err
	}
	return packed.Close()
}

func (w *without) plain(name string, in *bufio.Reader, out io.Writer) error {
	of := w.formatsOf(name, in)
	f := w.formats[of[0]]
	csv := newReader(in, f)
	csv.keep = out != nil
	header, err := csv.header(f.Key)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	var encoded *transform.Writer
	if out != nil && f.Encoding != nil {
		encoded = transform.NewWriter(out, f.Encoding.NewEncoder())
		out = encoded
	}
	l := f.layout(name, header)
	for cells := header; ; {
		if cells != nil && out != nil {
			if _, err := out.Write(csv.raw); err != nil {
				return err
			}
		}
		if cells, err = csv.next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		row := Row{Header: header, Cells: cells, Of: w.toldBy(of, l, cells)}
		if l.key >= 0 && l.key < len(cells) {
			row.Key = cells[l.key]
		}
		if w.drop(row) {
			w.dropped++
			cells = nil
		}
	}
	if encoded == nil {
		return nil
	}
	return encoded.Close()
}
