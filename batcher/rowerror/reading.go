package rowerror

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/transform"
)

// reading is one call of Read or Without.
type reading struct {
	formats []Format
	errors  bool // only rows in error are handed on, with their reasons
	each    func(Row) (drop bool, err error)
	line    func([]byte) // instead of each: no form of the files is known
	dropped int64
	found   bool // a file with a header
}

// file reads output files, and copies them to out but for the rows that are dropped; with
// out nil they are only read.
func (r *reading) file(file File, out io.Writer) error {
	archive, err := open(file)
	switch {
	case err != nil:
		return err
	case archive == nil:
		return r.text("", file, out)
	}
	return r.archive(archive, out)
}

func (r *reading) archive(archive *zip.Reader, out io.Writer) error {
	var packed *zip.Writer
	if out != nil {
		packed = zip.NewWriter(out)
	}
	var noRows error // what is no file of rows may be beside one
	for _, entry := range archive.File {
		if err := r.entry(entry, packed); errors.Is(err, errNoRows) {
			noRows = err
		} else if err != nil {
			return err
		}
	}
	if noRows != nil && !r.found {
		return noRows
	}
	if packed == nil {
		return nil
	}
	return packed.Close()
}

// explains matches files of a ZIP that are beside those of rows: hidden ones, those that macOS
// adds, and explanations. Who looks for a customer's rows reads them, too.
var explains = regexp.MustCompile(`(?i)(^|[/\\])(\.[^./\\]|__MACOSX[/\\]|readme)`)

// entry copies one file of a ZIP; packed is nil where nothing is written.
func (r *reading) entry(entry *zip.File, packed *zip.Writer) error {
	var out io.Writer
	if packed != nil {
		var err error
		if out, err = packed.CreateHeader(&zip.FileHeader{Name: entry.Name, Method: entry.Method, Modified: entry.Modified}); err != nil {
			return err
		}
	}
	if entry.FileInfo().IsDir() || r.errors && explains.MatchString(entry.Name) {
		return nil
	}
	in, err := entry.Open()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return errors.Join(r.text(entry.Name, in, out), in.Close())
}

// text copies one file, GZIP or plain; with out nil it is only read.
func (r *reading) text(name string, in io.Reader, out io.Writer) error {
	buffered := bufio.NewReaderSize(in, headLength)
	magic, _ := buffered.Peek(2) // what keeps it from being read shows below
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return r.plain(name, buffered, out)
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	unpacked := bufio.NewReaderSize(z, headLength)
	if out == nil {
		return r.plain(name, unpacked, nil)
	}
	packed := gzip.NewWriter(out)
	if err := r.plain(name, unpacked, packed); err != nil {
		return err
	}
	return packed.Close()
}

func (r *reading) plain(name string, in *bufio.Reader, out io.Writer) error {
	if r.line != nil {
		return r.lines(in)
	}
	of := r.formatsOf(name, in)
	f := r.formats[of[0]]
	if first, _ := in.Peek(headLength); isUTF8(first) {
		f.Encoding = nil
	}
	csv := newReader(in, f)
	csv.keep = out != nil
	header, err := r.header(csv, f.Key)
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
	r.found = true
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
		if r.errors && !l.inError(cells) {
			continue
		}
		row := Row{Header: header, Cells: cells, Marked: l.marked, Of: r.toldBy(of, l, cells)}
		if r.errors {
			row.Reason = l.reason(cells)
		}
		if l.key >= 0 && l.key < len(cells) {
			row.Key = cells[l.key]
		}
		drop, err := r.each(row)
		if err != nil {
			return err
		}
		if drop {
			r.dropped++
			cells = nil
		}
	}
	if encoded == nil {
		return nil
	}
	return encoded.Close()
}

// errNoRows is what a gateway, or the service, says in the place of rows.
var errNoRows = errors.New("they are JSON, HTML or XML where rows were expected")

// header reads the first record, unless the file begins as JSON, HTML or XML does and rows in error
// are looked for.
func (r *reading) header(csv *reader, key string) ([]string, error) {
	first, _ := csv.in.Peek(headLength) // what keeps it from being read shows below
	first = bytes.TrimSpace(first)
	document := r.errors && len(first) > 0 && strings.IndexByte("{[<", first[0]) >= 0
	header, err := csv.header(key)
	if document && (errors.Is(err, errTooLong) || err == nil && column(header, key) < 0) {
		return nil, errNoRows
	}
	return header, err
}

func (r *reading) lines(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRecord)
	for lines.Scan() {
		r.line(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return nil
}
