package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
)

// assign gives each load its file of an upload. A single load takes a single file
// of any name; several loads find theirs by their patterns, and no file may be left.
func assign(loads []Load, files []csvfile.File) ([]csvfile.File, error) {
	if len(loads) == 1 {
		return files, single(files)
	}
	var assigned []csvfile.File
	for _, l := range loads {
		i, twice := l.index(files)
		if i < 0 {
			return nil, fmt.Errorf("missing file: none matches %s", l.FileNamePattern)
		}
		if twice {
			return nil, fmt.Errorf("invalid file: two files match %s", l.FileNamePattern)
		}
		assigned = append(assigned, files[i])
	}
	if len(files) > len(loads) {
		return nil, fmt.Errorf("invalid file: %d files for %d loads", len(files), len(loads))
	}
	return assigned, nil
}

func single(files []csvfile.File) error {
	if len(files) != 1 {
		return fmt.Errorf("invalid file: a ZIP with one file is expected, it holds %d", len(files))
	}
	return nil
}

// index is the place of the first file that has the load's name, -1 for none.
func (l Load) index(files []csvfile.File) (first int, twice bool) {
	pattern := namePattern(l.FileNamePattern)
	has := func(f csvfile.File) bool { return pattern.MatchString(f.Name) }
	first = slices.IndexFunc(files, has)
	return first, first >= 0 && slices.ContainsFunc(files[first+1:], has)
}

// namePattern compiles a fileNamePattern. Beside the document's date token, *
// stands for anything: the sandbox's choice.
func namePattern(s string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(s)
	quoted = strings.ReplaceAll(quoted, regexp.QuoteMeta("$YYYYMMDD"), `[0-9]{8}`)
	quoted = strings.ReplaceAll(quoted, regexp.QuoteMeta("*"), `.*`)
	return regexp.MustCompile("^" + quoted + "$")
}

// remoteName is the pattern of the file to fetch: that of the compressed file
// where there is one, which may hold several.
func (l Load) remoteName() string {
	if l.Compression != "" && l.Compression != csvfile.Uncompressed && l.CompressedFileNamePattern != "" {
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
}

// fetch gets the files of an execution from its remote location. One that is
// missing there is an error of the execution, not of the call that started it.
func (s *Sandbox) fetch(e *execution) (*retrieval, []csvfile.File, error) {
	at, err := s.open(Location{Remote: e.etl.Fetch.Remote})
	if err != nil {
		return nil, nil, fmt.Errorf("missing file: %w", err)
	}
	r := &retrieval{at: at}
	unpacked := map[string][]csvfile.File{}
	files := make([]csvfile.File, len(e.etl.Loads))
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
func (r *retrieval) take(name, to string, compression csvfile.Compression) ([]csvfile.File, error) {
	size, err := copyIn(r.at, name, to)
	r.names, r.copies, r.bytes = append(r.names, name), append(r.copies, to), r.bytes+size
	if err != nil {
		return nil, err
	}
	files, is, err := csvfile.Unpack(to, name)
	if err == nil && compression != "" && is != compression {
		err = fmt.Errorf("invalid file: compressionType %s is expected, it is %s", compression, is)
	}
	return files, err
}

// pick finds a load's file in what was packed together.
func (l Load) pick(files []csvfile.File, several bool) (csvfile.File, error) {
	if !several {
		if err := single(files); err != nil {
			return csvfile.File{}, err
		}
		return files[0], nil
	}
	i, _ := l.index(files)
	if i < 0 && len(files) == 1 && l.remoteName() != l.FileNamePattern {
		i = 0 // alone in a compressed file, whose name has matched
	}
	if i < 0 {
		return csvfile.File{}, fmt.Errorf("missing file: none matches %s", l.FileNamePattern)
	}
	return files[i], nil
}

// end lets go of everything; loaded files are deleted where they came from if
// the definition wants that.
func (r *retrieval) end(deleteRemote bool) error {
	var errs []error
	if deleteRemote {
		for _, name := range r.names {
			errs = append(errs, r.at.Remove(name))
		}
	}
	for _, path := range r.copies {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(append(errs, r.at.Close())...)
}

// errNoLocation is what a definition or a call is told about a name that no
// folder has, or that no folder may have.
var errNoLocation = errors.New("no such remote location")

// path is where the location lies below the root of all of them.
func (l Location) path() (string, error) {
	kind, name := "remote", l.Remote
	if l.TransferBox != "" {
		kind, name = "transferbox", l.TransferBox
	}
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
		return "", errNoLocation
	}
	return path.Join(kind, name), nil
}

// foldersRoot is the folder below which all locations lie, with or without any.
func (s *Sandbox) foldersRoot() (string, error) {
	if s.conf.Folders != "" {
		return s.conf.Folders, nil
	}
	dir, err := s.imports.folder()
	return filepath.Join(dir, "locations"), err
}

// Folder makes a location, where it is not there yet, and returns its folder:
// files put there can be fetched by imports, output files can be found there.
// Nothing outside of the root of all locations can be reached, through links
// neither.
func (s *Sandbox) Folder(l Location) (string, error) {
	below, err := l.path()
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	root, err := s.foldersRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, filepath.FromSlash(below))
	return dir, os.MkdirAll(dir, 0o755)
}

// open opens a location. A transfer box of the entity is made on the way; a
// remote location exists or not.
func (s *Sandbox) open(l Location) (*os.Root, error) {
	below, err := l.path()
	if err != nil {
		return nil, err
	}
	if l.TransferBox != "" {
		if l.TransferBox != s.conf.Entity {
			return nil, errors.New("the transfer box is another entity's")
		}
		if _, err := s.Folder(l); err != nil {
			return nil, err
		}
	}
	dir, err := s.foldersRoot()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errNoLocation
	}
	at, err := root.OpenRoot(below)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, errNoLocation
	}
	return at, nil
}

// exists reports whether a location can be used.
func (s *Sandbox) exists(l Location) error {
	if l == (Location{}) {
		return nil
	}
	at, err := s.open(l)
	if err != nil {
		return err
	}
	return at.Close()
}

// latest is the name of the file that a pattern names, "" for none. Of several,
// which a date in the name makes, it is the last in alphabetical order: the day
// that the token $YYYYMMDD stands for is not shown.
func latest(at *os.Root, pattern string) (string, error) {
	entries, err := fs.ReadDir(at.FS(), ".")
	if err != nil {
		return "", err
	}
	name := namePattern(pattern)
	for _, e := range slices.Backward(entries) { // they are sorted
		if e.Type().IsRegular() && name.MatchString(e.Name()) {
			return e.Name(), nil
		}
	}
	return "", nil
}

// drop writes an execution's output files to its output location, packed as
// operation 12 gives them, and returns their path below the root of all
// locations, "" for none.
func (s *Sandbox) drop(id string, l Location, files []csvfile.File) (dropped string, err error) {
	if l == (Location{}) || len(files) == 0 {
		return "", nil
	}
	at, err := s.open(l)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	p := csvfile.Pack(files, s.conf.Shapes.output())
	name := id + "-" + p.Name
	f, err := at.Create(name)
	if err != nil {
		return "", err
	}
	below, _ := l.path() // open has looked at it
	return path.Join(below, name), errors.Join(p.Write(f), f.Close())
}

// copyIn copies a file of a location to the service's own disk: what is loaded
// must not change while it is read.
func copyIn(at *os.Root, name, to string) (size int64, err error) {
	from, err := at.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	f, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(f, from)
	return size, errors.Join(err, f.Close())
}
