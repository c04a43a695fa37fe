package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Location is a place for files beside the service: a remote location (FTPS)
// or the transfer box of an entity. Both are folders here.
type Location struct {
	Remote      string // remoteLocationId
	TransferBox string // entity
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
func (s *Sandbox) drop(id string, l Location, files []output) (dropped string, err error) {
	if l == (Location{}) || len(files) == 0 {
		return "", nil
	}
	at, err := s.open(l)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	p := s.conf.Shapes.Output.pack(files)
	name := id + "-" + p.name
	f, err := at.Create(name)
	if err != nil {
		return "", err
	}
	below, _ := l.path() // open has looked at it
	return path.Join(below, name), errors.Join(p.write(f), f.Close())
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
