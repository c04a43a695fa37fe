package sandbox

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// output is a finished output file.
type output struct {
	name string // as it is offered
	path string
}

// outputFile is an output file being written: the columns of the input and one
// more. It comes to be with its first row; a nil one swallows rows.
type outputFile struct {
	path   string
	last   string // header of the added column
	header []string
	d      dialect

	file *os.File
	buf  *bufio.Writer
	rows *csvWriter
}

// openOutputs prepares the files that the definition asks for.
func (l *loading) openOutputs(base string) {
	if l.GenerateErrorFiles {
		l.rejected = &outputFile{path: base + "-errors.csv", last: "error", header: l.header, d: l.dialect}
	}
	if l.GenerateResultFiles {
		l.accepted = &outputFile{path: base + "-results.csv", last: "result", header: l.header, d: l.dialect}
	}
}

// closeOutputs completes them and lists those that have rows.
func (l *loading) closeOutputs() ([]output, error) {
	var list []output
	var errs []error
	stem := strings.TrimSuffix(l.file.name, filepath.Ext(l.file.name))
	for _, f := range []*outputFile{l.rejected, l.accepted} {
		if f == nil || f.file == nil {
			continue
		}
		errs = append(errs, f.buf.Flush(), f.file.Close())
		list = append(list, output{name: stem + "-" + f.last + ".csv", path: f.path})
	}
	return list, errors.Join(errs...)
}

func (o *outputFile) write(cells []string, last string) error {
	if o == nil {
		return nil
	}
	if o.file == nil {
		f, err := os.Create(o.path)
		if err != nil {
			return err
		}
		o.file, o.buf = f, bufio.NewWriter(f)
		o.rows = newCSVWriter(o.buf, o.d)
		if err := o.rows.write(o.header, o.last); err != nil {
			return err
		}
	}
	return o.rows.write(cells, last)
}

// outputFiles is operation 12. What the document does not show: one file comes
// as Shapes.Output says, several as a ZIP, and none, or an execution that has
// not ended, as 404.
func (s *Sandbox) outputFiles(r *http.Request, _ *call) (func() (answer, error), error) {
	return func() (answer, error) {
		e, err := s.imports.find(r.PathValue("execution"))
		if err != nil {
			return answer{}, refuse(http.StatusNotFound, "no such execution")
		}
		s.imports.mu.Lock()
		files := e.outputs
		s.imports.mu.Unlock()
		if len(files) == 0 {
			return answer{}, refuse(http.StatusNotFound, "the execution has no output files")
		}
		shape := s.conf.Shapes.Output
		if len(files) > 1 {
			shape = OutputZip
		}
		a := answer{status: http.StatusOK, header: http.Header{"Content-Type": {"text/csv"}}}
		switch shape {
		case OutputZip:
			a.header.Set("Content-Type", "application/zip")
			a.stream = func(w io.Writer) error { return zipped(w, files) }
		case OutputGzip:
			a.header.Set("Content-Type", "application/gzip")
			a.stream = func(w io.Writer) error { return gzipped(w, files[0]) }
		default:
			a.stream = func(w io.Writer) error { return copied(w, files[0]) }
		}
		return a, nil
	}, nil
}

func copied(w io.Writer, from output) error {
	f, err := os.Open(from.path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

func gzipped(w io.Writer, from output) error {
	z := gzip.NewWriter(w)
	return errors.Join(copied(z, from), z.Close())
}

func zipped(w io.Writer, files []output) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		entry, err := z.Create(f.name)
		if err != nil {
			return err
		}
		if err := copied(entry, f); err != nil {
			return err
		}
	}
	return z.Close()
}
