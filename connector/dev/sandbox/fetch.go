package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Compression is how a file at a remote location is packed.
type Compression string

// The compressions of the document.
const (
	Uncompressed Compression = "NONE"
	Gzip         Compression = "GZIP"
	Zip          Compression = "ZIP"
)

func (c Compression) valid() bool {
	return c == "" || slices.Contains([]Compression{Uncompressed, Gzip, Zip}, c)
}

// remoteName is the pattern of the file to fetch: that of the compressed file
// where there is one, which may hold several.
func (l Load) remoteName() string {
	if l.Compression != "" && l.Compression != Uncompressed && l.CompressedFileNamePattern != "" {
		return l.CompressedFileNamePattern
	}
	return l.FileNamePattern
}

// retrieval is what an execution fetched from its remote location.
type retrieval struct {
	at     *os.Root
	names  []string // of the remote files, each once
	copies []string // of the same, on our disk
	bytes  int64
	close  []func() error
}

// fetch gets the files of an execution from its remote location. One that is
// missing there is an error of the execution, not of the call that started it.
func (s *Sandbox) fetch(e *execution) (*retrieval, []file, error) {
	at, err := s.open(Location{Remote: e.etl.Fetch.Remote})
	if err != nil {
		return nil, nil, fmt.Errorf("missing file: %w", err)
	}
	r := &retrieval{at: at, close: []func() error{at.Close}}
	unpacked := map[string][]file{}
	files := make([]file, len(e.etl.Loads))
	for i, l := range e.etl.Loads {
		name, err := latest(at, l.remoteName())
		if err == nil && name == "" {
			err = fmt.Errorf("missing file: none at the remote location matches %s", l.remoteName())
		}
		if err == nil && unpacked[name] == nil {
			unpacked[name], err = r.take(name, fmt.Sprintf("%s-in%d", e.path, i), l.Compression)
		}
		if err == nil {
			files[i], err = l.pick(unpacked[name], len(e.etl.Loads) > 1)
		}
		if err != nil {
			return r, nil, err
		}
	}
	return r, files, nil
}

// take copies a remote file and opens it as what the definition says it is.
func (r *retrieval) take(name, to string, want Compression) ([]file, error) {
	size, err := copyIn(r.at, name, to)
	r.names, r.copies, r.bytes = append(r.names, name), append(r.copies, to), r.bytes+size
	if err != nil {
		return nil, err
	}
	files, kind, done, err := unpack(to, name)
	if err != nil {
		return nil, err
	}
	r.close = append(r.close, done)
	if want != "" && kind != want {
		return nil, fmt.Errorf("invalid file: compressionType %s is expected, it is %s", want, kind)
	}
	return files, nil
}

// pick finds a load's file in what was packed together.
func (l Load) pick(files []file, several bool) (file, error) {
	if !several {
		if len(files) != 1 {
			return file{}, fmt.Errorf("invalid file: a ZIP with one file is expected, it holds %d", len(files))
		}
		return files[0], nil
	}
	pattern := namePattern(l.FileNamePattern)
	i := slices.IndexFunc(files, func(f file) bool { return pattern.MatchString(f.name) })
	if i < 0 && len(files) == 1 && l.remoteName() != l.FileNamePattern {
		i = 0 // alone in a compressed file, whose name has matched
	}
	if i < 0 {
		return file{}, fmt.Errorf("missing file: none matches %s", l.FileNamePattern)
	}
	return files[i], nil
}

// name is what the execution calls its file.
func (r *retrieval) name() string { return strings.Join(r.names, ",") }

// end lets go of everything; loaded files are deleted where they came from if
// the definition wants that.
func (r *retrieval) end(deleteRemote bool) error {
	var errs []error
	if deleteRemote {
		for _, name := range r.names {
			errs = append(errs, r.at.Remove(name))
		}
	}
	for _, done := range slices.Backward(r.close) {
		errs = append(errs, done())
	}
	for _, path := range r.copies {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}
