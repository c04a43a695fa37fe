package sandbox

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// file is one CSV inside an upload, which can be opened as often as needed.
type file struct {
	name string
	open func() (io.ReadCloser, error)
}

// unpack tells by its first bytes what an upload is, a ZIP, a GZIP or plain
// CSV, and lists the files in it. The returned function closes the upload.
func unpack(path, name string) (files []file, kind Compression, done func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", nil, err
	}
	magic, err := bufio.NewReader(f).Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", nil, errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return nil, "", nil, err
	}
	if bytes.HasPrefix(magic, []byte("PK\x03\x04")) || bytes.HasPrefix(magic, []byte("PK\x05\x06")) {
		files, done, err = unzip(path)
		return files, Zip, done, err
	}
	kind = Uncompressed
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	if bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) {
		kind, open = Gzip, func() (io.ReadCloser, error) { return openGzip(path) }
	}
	return []file{{name, open}}, kind, func() error { return nil }, nil
}

func unzip(path string) ([]file, func() error, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, nil, fmt.Errorf("invalid file: %w", err)
	}
	var files []file
	for _, f := range z.File {
		if !f.FileInfo().IsDir() {
			files = append(files, file{f.Name, f.Open})
		}
	}
	return files, z.Close, nil
}

// gzipFile closes both the decompressor and the file below it.
type gzipFile struct {
	*gzip.Reader
	below *os.File
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
	return gzipFile{z, f}, nil
}

// Close ends reading.
func (g gzipFile) Close() error { return errors.Join(g.Reader.Close(), g.below.Close()) }

// assign gives each load its file. A single load takes a single file of any
// name; several loads find theirs by their patterns, and no file may be left.
func assign(loads []Load, files []file) ([]file, error) {
	if len(loads) == 1 {
		if len(files) != 1 {
			return nil, fmt.Errorf("invalid file: a ZIP with one file is expected, it holds %d", len(files))
		}
		return files, nil
	}
	var assigned []file
	for _, l := range loads {
		pattern := namePattern(l.FileNamePattern)
		found := -1
		for i, f := range files {
			if !pattern.MatchString(f.name) {
				continue
			}
			if found >= 0 {
				return nil, fmt.Errorf("invalid file: two files match %s", l.FileNamePattern)
			}
			found = i
		}
		if found < 0 {
			return nil, fmt.Errorf("missing file: none matches %s", l.FileNamePattern)
		}
		assigned = append(assigned, files[found])
	}
	if len(files) > len(loads) {
		return nil, fmt.Errorf("invalid file: %d files for %d loads", len(files), len(loads))
	}
	return assigned, nil
}

// namePattern compiles a fileNamePattern. Beside the document's date token, *
// stands for anything: the sandbox's choice.
func namePattern(s string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(s)
	quoted = strings.ReplaceAll(quoted, regexp.QuoteMeta("$YYYYMMDD"), `[0-9]{8}`)
	quoted = strings.ReplaceAll(quoted, regexp.QuoteMeta("*"), `.*`)
	return regexp.MustCompile("^" + quoted + "$")
}
