package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// ErrTooLarge is an answer of operation 12 beyond the limit that the caller set.
var ErrTooLarge = errors.New("the output files are larger than the limit")

// Output says what came with an execution's output files.
type Output struct {
	ContentType string      // as the service names it
	Compression Compression // as the content tells: Gzip, Zip or, for a CSV, Plain
	Bytes       int64
}

// OutputFiles writes the result and error files of an execution to w as they
// come (operation 12). An execution without any has none (no bytes) or is
// NotFound. After an error w may hold a beginning, and the call may be repeated
// with an emptied one.
func (c *Client) OutputFiles(ctx context.Context, id string, w io.Writer) (Output, error) {
	head := &beginning{to: w}
	got, err := c.send(ctx, &call{op: OpOutputFiles, method: http.MethodGet, target: id, into: head},
		c.imports+"/etl-executions/", id, "/output-files")
	if err != nil {
		return Output{}, err
	}
	return Output{
		ContentType: got.header.Get("Content-Type"), Compression: head.compression(), Bytes: got.written,
	}, nil
}

// SaveOutputFiles streams the output files of an execution into a file (operation
// 12), which appears whole or not at all: until its last byte it is called
// path.part, which is removed after an error. More than limit bytes are
// ErrTooLarge; 0 is no limit. Where there are no output files no file appears,
// and the answer tells no bytes. The file is not forced to the disk, since the
// service still has it.
func (c *Client) SaveOutputFiles(ctx context.Context, id, path string, limit int64) (Output, error) {
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // customers' data
	if err != nil {
		return Output{}, fmt.Errorf("%s %s: %w", OpOutputFiles, id, err)
	}
	out, err := c.OutputFiles(ctx, id, &limited{to: file, limit: limit})
	if closed := file.Close(); closed != nil && err == nil {
		err = fmt.Errorf("%s %s: %w", OpOutputFiles, id, closed)
	}
	if err != nil || out.Bytes == 0 {
		_ = os.Remove(part) // nothing in it is of use; the next try truncates it
		return out, err
	}
	if err := os.Rename(part, path); err != nil {
		return Output{}, fmt.Errorf("%s %s: %w", OpOutputFiles, id, err)
	}
	return out, nil
}

// beginning remembers the first bytes that pass.
type beginning struct {
	to    io.Writer
	first []byte
}

func (b *beginning) Write(p []byte) (int, error) {
	if missing := 4 - len(b.first); missing > 0 {
		b.first = append(b.first, p[:min(missing, len(p))]...)
	}
	return b.to.Write(p)
}

// compression tells by the first bytes, because the answer's format is not
// shown: what its header says may be about the files or about their wrapping.
func (b *beginning) compression() Compression {
	switch {
	case bytes.HasPrefix(b.first, []byte{0x1f, 0x8b}):
		return Gzip
	case bytes.Equal(b.first, []byte("PK\x03\x04")), bytes.Equal(b.first, []byte("PK\x05\x06")):
		return Zip
	}
	return Plain
}

// limited fails before it would pass on more than limit bytes.
type limited struct {
	to    io.Writer
	limit int64 // 0: none
	count int64
}

func (l *limited) Write(p []byte) (int, error) {
	l.count += int64(len(p))
	if l.limit > 0 && l.count > l.limit {
		return 0, fmt.Errorf("%w of %d bytes; nothing is kept, save them with a higher one", ErrTooLarge, l.limit)
	}
	return l.to.Write(p)
}
