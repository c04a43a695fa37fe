package csvfile

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Compression is how files are packed.
type Compression string

// The compressions of the document.
const (
	Uncompressed Compression = "NONE"
	Gzip         Compression = "GZIP"
	Zip          Compression = "ZIP"
)

// File is one CSV inside an upload, which can be opened any number of times.
type File struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Unpack tells by its first bytes what an upload is, a ZIP, a GZIP or plain
// CSV, and lists the files in it.
func Unpack(path, name string) (files []File, c Compression, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	magic, err := bufio.NewReader(f).Peek(4)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, "", err
	}
	switch {
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")), bytes.HasPrefix(magic, []byte("PK\x05\x06")):
		files, err = unzip(path)
		return files, Zip, err
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return []File{{name, func() (io.ReadCloser, error) { return openGzip(path) }}}, Gzip, nil
	}
	return []File{{name, func() (io.ReadCloser, error) { return os.Open(path) }}}, Uncompressed, nil
}

func unzip(path string) ([]File, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("invalid file: %w", err)
	}
	var files []File
	for i, f := range z.File {
		if !f.FileInfo().IsDir() {
			files = append(files, File{f.Name, func() (io.ReadCloser, error) { return openZip(path, i) }})
		}
	}
	return files, z.Close()
}

// packed is a file that is read out of another one; closing it closes both.
type packed struct {
	io.ReadCloser
	below io.Closer
}

// Close ends reading.
func (p packed) Close() error { return errors.Join(p.ReadCloser.Close(), p.below.Close()) }

func openZip(path string, i int) (io.ReadCloser, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	f, err := z.File[i].Open()
	if err != nil {
		return nil, errors.Join(err, z.Close())
	}
	return packed{f, z}, nil
}

func openGzip(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return packed{z, f}, nil
}

// Packed are files on their way out.
type Packed struct {
	Name        string
	ContentType string
	Write       func(io.Writer) error
}

// Pack packs files, of which there is at least one. Several come as a ZIP, whatever
// is asked for.
func Pack(files []File, c Compression) Packed {
	name, one := files[0].Name, func(w io.Writer) error { return files[0].copyTo(w) }
	switch {
	case len(files) > 1 || c == Zip:
		return Packed{strings.TrimSuffix(name, ".csv") + ".zip", "application/zip", func(w io.Writer) error {
			z := zip.NewWriter(w)
			for _, f := range files {
				entry, err := z.Create(f.Name)
				if err == nil {
					err = f.copyTo(entry)
				}
				if err != nil {
					return err
				}
			}
			return z.Close()
		}}
	case c == Gzip:
		return Packed{name + ".gz", "application/gzip", func(w io.Writer) error {
			z := gzip.NewWriter(w)
			return errors.Join(one(z), z.Close())
		}}
	}
	return Packed{name, "text/csv", one}
}

func (f File) copyTo(w io.Writer) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return errors.Join(err, in.Close())
}
