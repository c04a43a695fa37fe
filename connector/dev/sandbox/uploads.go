package sandbox

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
)

// upload is a received file on disk.
type upload struct {
	path string
	name string // as the client called it
	size int64
}

// partTypes are the content types of the parts of operation 8. GZIP is among
// the compressions that the document accepts, so its type is taken too.
var partTypes = map[string][]string{
	"inputFile":  {"application/zip", "text/csv", "application/gzip"},
	"oneshotEtl": {"application/json"},
}

// contentType is a content type without its parameters, "" where it is none.
func contentType(header string) string {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return kind
}

// receive stores the multipart body's inputFile on disk as it arrives and
// returns it with the oneshotEtl part, which is nil where there is none.
func (s *Sandbox) receive(r *http.Request, c *call) (up upload, oneShot []byte, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return up, nil, refuse(http.StatusBadRequest, "a multipart body with the part inputFile is expected")
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return up, nil, refuse(http.StatusBadRequest, "the multipart body ended early")
		}
		kind := contentType(part.Header.Get("Content-Type"))
		switch {
		case c.Op == 8 && !slices.Contains(partTypes[part.FormName()], kind):
			return up, nil, refuse(http.StatusBadRequest, "part %q: content type %q is not expected", part.FormName(), kind)
		case part.FormName() == "inputFile" && up.path == "":
			if up, err = s.store(part, part.FileName(), c); err != nil {
				return up, nil, err
			}
		case part.FormName() == "oneshotEtl" && oneShot == nil:
			if oneShot, err = io.ReadAll(io.LimitReader(part, maxBody)); err != nil {
				return up, nil, refuse(http.StatusBadRequest, "the multipart body ended early")
			}
		default:
			return up, nil, refuse(http.StatusBadRequest, "part %q is not expected here", part.FormName())
		}
	}
	if up.path == "" {
		return up, nil, refuse(http.StatusBadRequest, "the part inputFile is missing")
	}
	return up, oneShot, nil
}

// store writes one part to disk. The call's cleanup removes it unless an
// execution has taken it over by moving it away.
func (s *Sandbox) store(part io.Reader, name string, c *call) (upload, error) {
	dir, err := s.imports.folder()
	if err != nil {
		return upload{}, err
	}
	f, err := os.CreateTemp(dir, "upload-*")
	if err != nil {
		return upload{}, err
	}
	c.cleanup = func() { _ = os.Remove(f.Name()) } // gone already where it was used
	n, err := io.Copy(f, part)
	if closeErr := f.Close(); closeErr != nil {
		return upload{}, closeErr
	}
	if err != nil {
		return upload{}, refuse(http.StatusBadRequest, "the upload ended early")
	}
	return upload{path: f.Name(), name: filepath.Base(name), size: n}, nil
}
