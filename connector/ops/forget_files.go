package ops

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/forget"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/connector/words"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// spooled is a file with rows of the key.
type spooled struct {
	spool.Listed
	dir     string
	at      string            // its path within the spool
	inUse   bool              // a process has the directory open
	formats []rowerror.Format // the mapping's is the first; the others are of its bundle
	writer  writer            // by its name; of noMapping there are no formats
	place   forget.Place
}

// files are those in the spool of this machine that have rows of the key.
func (f *forgetting) files(ctx context.Context) (found []spooled, err error) {
	dirs, err := f.directories()
	if err != nil {
		return nil, err
	}
	for _, name := range dirs {
		dir := filepath.Join(f.cfg.Spool.Dir, name)
		list, err := spool.List(dir)
		if err != nil {
			return nil, err
		}
		imports, err := f.imports(ctx, len(list)) // after the list: an import is on record before its file can be kept
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			s := spooled{Listed: l, dir: dir, at: filepath.Join(name, l.Name), inUse: spool.InUse(dir)}
			s.writer = f.writerOf(l.Mapping)
			switch s.writer {
			case anotherMapping:
				continue
			case thisMapping, otherBundle:
				if s.formats, err = files.Formats(f.rowsIn(l.Mapping), l.File); err != nil {
					return nil, err
				}
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			rows, err := s.rows(f)
			if errors.Is(err, fs.ErrNotExist) {
				continue // its import was confirmed meanwhile
			}
			if s.judge(rows, err, imports(l.File)); s.place.State != "" {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

// directories are the spool and those of backfills in it, of whichever mapping.
func (f *forgetting) directories() ([]string, error) {
	entries, err := os.ReadDir(f.cfg.Spool.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if f.report.Spool = f.cfg.Spool.Dir; err != nil {
		f.report.Spool = ""
		if len(tables.Filed(f.asked.router.Mappings())) > 0 {
			f.report.Notes = withNote(f.report.Notes, f.cfg.Spool.Dir+" is not on this machine: no file was looked at; run forget where the batch lane runs")
		}
		return nil, nil
	}
	dirs := []string{""}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), backfillDir) {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs, nil
}

// writer is who writes files of a name.
type writer int

const (
	noMapping writer = iota // it was renamed, or has no batch lane any more
	thisMapping
	otherBundle // which the mapping may have been in
	anotherMapping
)

// writerOf says who writes files with the name of a mapping or a bundle.
func (f *forgetting) writerOf(name string) writer {
	batch := f.mapping.Uses(schemas.Batch)
	switch {
	case batch && (name == f.mapping.Name || name == f.mapping.Config.Bundle):
		return thisMapping
	case name == f.mapping.Name:
		return noMapping
	case batch && f.has(func(m *router.Compiled) bool { return name == m.Config.Bundle }):
		return otherBundle
	case f.has(func(m *router.Compiled) bool { return name == m.Name || name == m.Config.Bundle }):
		return anotherMapping
	}
	return noMapping
}

func (f *forgetting) has(is func(*router.Compiled) bool) bool {
	return slices.ContainsFunc(f.asked.router.Mappings(), is)
}

// rowsIn are the mappings of which a file with the name of a mapping or a bundle has rows, the
// one that is asked about first, as if it were in the bundle if it is not.
func (f *forgetting) rowsIn(name string) []files.Mapping {
	own := build.BatchMapping(f.mapping)
	own.Bundle = name
	of := []files.Mapping{own}
	for _, m := range f.asked.router.Mappings() {
		if m != f.mapping && m.Config.Bundle == name {
			of = append(of, build.BatchMapping(m))
		}
	}
	if len(of) == 1 { // it went by itself
		of[0].Bundle = ""
	}
	return of
}

// withNote adds a note once.
func withNote(notes []string, note string) []string {
	if slices.Contains(notes, note) {
		return notes
	}
	return append(notes, note)
}

// imports tells which files, of some that were listed, are of imports that the batch lane has
// on record.
func (f *forgetting) imports(ctx context.Context, files int) (of func(file string) bool, err error) {
	named, unsure := map[string]bool{}, false
	of = func(file string) bool { return unsure || named[file] }
	if files == 0 {
		return of, nil
	}
	commits, err := f.reader.Committed(ctx, schemas.Batch.Group(f.cfg.Kafka.Group))
	if err != nil {
		return nil, err
	}
	for _, c := range commits {
		ledger, err := ack.Decode(c.Metadata, c.Offset)
		unsure = unsure || err != nil && c.Metadata != "" && !errors.Is(err, ack.ErrForeign)
		for i := range ledger.Imports {
			named[ledger.Imports[i].File] = true
		}
	}
	return of, nil
}

// rows counts those of the key; of a file without formats, the lines that name it.
func (s *spooled) rows(f *forgetting) (n int64, err error) {
	path := filepath.Join(s.dir, s.Name)
	if s.Kind == spool.Journaled {
		return spool.RowsOf(path, f.Key)
	}
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	if s.writer != noMapping {
		return rowerror.Without(file, s.formats, s.of(f.Key), nil)
	}
	spelled := f.spelled()
	return n, rowerror.Lines(file, func(line []byte) {
		if slices.ContainsFunc(spelled, func(key string) bool { return forget.NamedIn(line, key) }) {
			n++
		}
	})
}

// spelled is the key as files whose form is not known may have it.
func (f *forgetting) spelled() (keys []string) {
	for _, name := range []string{"UTF-8", f.mapping.Config.Imports.CSV.Encoding, "ISO-8859-1", "UTF-16BE", "UTF-16LE"} {
		encoding, err := schemas.Encoding(name)
		for _, key := range []string{f.Key, strings.ReplaceAll(f.Key, `"`, `""`)} {
			if err == nil && encoding != nil {
				key, err = encoding.NewEncoder().String(key)
			}
			if err == nil && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// of reports whether a row is of the key; where the service's file has no column of the
// key's name, any cell counts.
func (s *spooled) of(key string) func(rowerror.Row) bool {
	return func(r rowerror.Row) bool {
		if !slices.Contains(r.Of, 0) {
			return false
		}
		return r.Key == key || r.Key == "" && slices.Contains(r.Cells, key)
	}
}

// judge says what becomes of the rows. One that a process on this machine may still send is
// left to it.
func (s *spooled) judge(rows int64, unreadable error, imported bool) {
	p := forget.Place{Kind: forget.File, Where: s.at, Holds: words.Counted(int(rows), "row")}
	if s.writer == noMapping {
		p.Holds = words.Counted(int(rows), "line") + " with the key's text"
	}
	kept := s.Kind == spool.KeptFailed || s.Kind == spool.KeptOutputs
	byHand := []string{"look at it, then rm " + quoted(filepath.Join(s.dir, s.Name))}
	switch {
	case kept && unreadable != nil:
		p.State, p.Holds, p.Why, p.Do = forget.Left, "what cannot be read", unreadable.Error(), byHand
	case rows == 0 && (unreadable == nil || s.inUse):
		return
	case kept && s.writer == otherBundle && (!s.inUse || !imported):
		p.State, p.Why, p.Do = forget.Left, "it is a file of the bundle "+s.Mapping+", which the mapping is not in any more", byHand
	case kept && s.writer == noMapping && (!s.inUse || !imported):
		p.State, p.Why, p.Do = forget.Left, "no mapping writes files of this name any more: "+s.Mapping+" was renamed or removed, or has no batch lane now", byHand
	case !s.inUse && kept:
		p.State, p.Yes = forget.Removable, "write the file anew without them"
	case !s.inUse:
		if rows == 0 {
			p.Holds = "what cannot be read"
		}
		p.State, p.Yes = forget.Removable, "remove the file: a process that has ended left it, and the records that are not confirmed are read again"
	case imported:
		p.State, p.Why = forget.Goes, "its import is on its way, or halted: feedsink imports list tells; it goes when that is confirmed"
	case kept:
		p.State, p.Yes = forget.Removable, "write the file anew without them"
	default:
		p.State, p.Why = forget.Goes, "it is on its way to the service, and goes when its import is confirmed"
	}
	s.place = p
}

// removeRows removes the rows that can be removed. Files that a process left which has
// ended are removed whole, as its next start does.
func removeRows(files []spooled, key string) (failed []error) {
	swept := map[string]bool{}
	for i := range files {
		s := &files[i]
		switch {
		case s.place.State != forget.Removable:
		case s.Kind == spool.KeptFailed || s.Kind == spool.KeptOutputs:
			failed = append(failed, spool.Rewrite(s.dir, s.Name, func(from *os.File, to io.Writer) error {
				_, err := rowerror.Without(from, s.formats, s.of(key), to)
				return err
			}))
		case !swept[s.dir]:
			swept[s.dir] = true
			dir, err := spool.Open(s.dir)
			if err == nil {
				err = dir.Close()
			}
			failed = append(failed, err)
		}
	}
	return failed
}
