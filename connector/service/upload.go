package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// chunk is the most that moves between two looks at the clock of a file
// transfer: at 16 KiB per timeout the slowest line is not taken for a dead one.
const chunk = 16 << 10

// File is a file to upload: a CSV, or GZIP or ZIP of it.
type File struct {
	Name string // as the service sees it; multi-file ETLs match it with their patterns

	// Open returns the file from its beginning and its length in bytes, and
	// does so again whenever the request has to be repeated. Every reader is
	// closed before the client's method returns.
	Open func() (io.ReadCloser, int64, error)
}

// contentType is that of a file by its name.
func contentType(name string) string {
	switch filepath.Ext(name) {
	case ".gz":
		return "application/gzip"
	case ".zip":
		return "application/zip"
	}
	return "text/csv"
}

var (
	errFileChanged = errors.New("the file changed its length while it was sent")
	errClosed      = errors.New("read after close")
)

// upload is a multipart body: some bytes, the file, some bytes. Its length is
// known beforehand, so that no chunked encoding is needed.
type upload struct {
	contentType string
	head, tail  []byte
	source      func() (io.ReadCloser, int64, error)

	bodies sync.WaitGroup        // bodies that the transport has not closed
	whole  atomic.Bool           // a last byte was handed over
	failed atomic.Pointer[error] // what went wrong first with the file itself
}

// newUpload puts definition, if there is one, before the file (operation 8).
func newUpload(file File, definition []byte) *upload {
	var form bytes.Buffer // takes everything, so that no write below can fail
	w := multipart.NewWriter(&form)
	if definition != nil {
		part, _ := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {`form-data; name="oneshotEtl"`},
			"Content-Type":        {"application/json"},
		})
		_, _ = part.Write(definition)
	}
	_, _ = w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {multipart.FileContentDisposition("inputFile", file.Name)},
		"Content-Type":        {contentType(file.Name)},
	})
	head := form.Len()
	_ = w.Close()
	all := form.Bytes()
	return &upload{contentType: w.FormDataContentType(), head: all[:head], tail: all[head:], source: file.Open}
}

func (u *upload) open(w *watchdog) (*uploadBody, error) {
	file, size, err := u.source()
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	u.bodies.Add(1)
	u.whole.Store(false)
	length := int64(len(u.head)) + size + int64(len(u.tail))
	return &uploadBody{
		upload: u, watch: w, file: file, length: length, left: length,
		parts: io.MultiReader(bytes.NewReader(u.head), &exactly{from: file, left: size}, bytes.NewReader(u.tail)),
	}, nil
}

// uploadBody is one reading of an upload, by the transport.
type uploadBody struct {
	*upload
	watch  *watchdog
	length int64
	file   io.Closer

	reading sync.Mutex // Close may come while a Read is under way
	parts   io.Reader
	left    int64
	closed  bool
}

// Read hands out a chunk. That it is called at all means that the chunk before
// has left.
func (b *uploadBody) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.closed {
		return 0, errClosed
	}
	b.watch.moved()
	n, err := b.parts.Read(p[:min(len(p), chunk)])
	b.left -= int64(n)
	if b.left == 0 {
		b.whole.Store(true)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		failed := fmt.Errorf("read file: %w", err)
		b.failed.CompareAndSwap(nil, &failed)
	}
	return n, err
}

// Close is called by the transport, at least once.
func (b *uploadBody) Close() error {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	defer b.bodies.Done()
	return b.file.Close()
}

// exactly reads left bytes and insists that there are no fewer and no more: a
// file that is cut short without a word would be imported as it is.
type exactly struct {
	from io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		var more [1]byte
		n, err := io.ReadFull(e.from, more[:])
		if n > 0 {
			return 0, errFileChanged
		}
		return 0, err
	}
	n, err := e.from.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if e.left > 0 {
			err = errFileChanged
		}
	}
	return n, err
}

// stream copies a download, telling the watchdog of every piece. What fails is the
// reading or, local, the writing.
func stream(to io.Writer, from io.Reader) (total int64, local, err error) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			wrote, err := to.Write(buffer[:n])
			total += int64(wrote)
			if err != nil {
				return total, fmt.Errorf("write: %w", err), nil
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil, nil
		}
		if err != nil {
			return total, nil, err
		}
	}
}
