package sandbox

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
)

// output is a finished output file.
type output struct {
	name string // as it is offered
	path string
}

// outputFile is an output file being written: the columns of the input with
// some before and some behind. It comes to be with its first row; a nil one
// swallows rows.
type outputFile struct {
	kind   string // part of its name
	path   string
	before []string // headers of added columns
	header []string // of the input
	behind []string // headers of added columns
	d      dialect

	file *os.File
	buf  *bufio.Writer
	rows *csvWriter
}

// openOutputs prepares the files that the definition asks for.
func (l *loading) openOutputs(base string) {
	if l.GenerateErrorFiles {
		l.rejected = &outputFile{kind: "error", path: base + "-errors.csv", header: l.header, d: l.dialect}
		switch l.reasons {
		case ReasonFirst:
			l.rejected.before = []string{"lineNumber", "reason"}
		case ReasonCodes:
			l.rejected.behind = []string{"ERROR_CODE", "ERROR_MESSAGE"}
		default:
			l.rejected.behind = []string{"error"}
		}
	}
	if l.GenerateResultFiles {
		l.accepted = &outputFile{
			kind: "result", path: base + "-results.csv", header: l.header, behind: []string{"result"}, d: l.dialect,
		}
	}
}

// reject writes a row with what is wrong with it.
func (l *loading) reject(cells []string, line int, why error) error {
	switch l.reasons {
	case ReasonFirst:
		return l.rejected.write([]string{strconv.Itoa(line), why.Error()}, cells, nil)
	case ReasonCodes:
		return l.rejected.write(nil, cells, []string{codeOf(why), why.Error()})
	}
	return l.rejected.write(nil, cells, []string{why.Error()})
}

// closeOutputs completes them and lists those that have rows.
func (l *loading) closeOutputs() ([]output, error) {
	var list []output
	var errs []error
	stem := path.Base(strings.ReplaceAll(l.file.name, `\`, "/")) // a ZIP names its files at will
	stem = strings.TrimSuffix(stem, path.Ext(stem))
	for _, f := range []*outputFile{l.rejected, l.accepted} {
		if f == nil || f.file == nil {
			continue
		}
		errs = append(errs, f.buf.Flush(), f.file.Close())
		list = append(list, output{name: stem + "-" + f.kind + ".csv", path: f.path})
	}
	return list, errors.Join(errs...)
}

func (o *outputFile) write(before, cells, behind []string) error {
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
		if err := o.rows.write(o.before, o.header, o.behind); err != nil {
			return err
		}
	}
	return o.rows.write(before, cells, behind)
}

// outputFiles is operation 12. What the document does not show: one file comes
// as Shapes.Output says, several as a ZIP; none, or an execution that has not
// ended, is answered as Shapes.Status says.
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
			return answer{}, refuse(s.conf.Shapes.Status.NoOutput, "the execution has no output files")
		}
		p := s.conf.Shapes.Output.pack(files)
		return answer{status: http.StatusOK, header: http.Header{"Content-Type": {p.contentType}}, stream: p.write}, nil
	}, nil
}

// packed are output files as they leave the service.
type packed struct {
	name        string
	contentType string
	write       func(io.Writer) error
}

// pack packs files, of which there is at least one.
func (o OutputShape) pack(files []output) packed {
	if len(files) > 1 {
		o = OutputZip
	}
	name := files[0].name
	switch o {
	case OutputZip:
		name = strings.TrimSuffix(name, ".csv") + ".zip"
		return packed{name, "application/zip", func(w io.Writer) error { return zipped(w, files) }}
	case OutputGzip:
		return packed{name + ".gz", "application/gzip", func(w io.Writer) error { return gzipped(w, files[0]) }}
	}
	return packed{name, "text/csv", func(w io.Writer) error { return copied(w, files[0]) }}
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
