// Package oneshot imports one file by hand, or of a backfill: it looks through a file before one of
// the table's few imports of the day is spent on it, launches the execution
// (operation 8), waits for its end (11) and fetches what it says of rows in error
// (12).
//
// It knows files, definitions and executions. It knows nothing about mappings,
// slots, Kafka or the sink that may be running beside it.
package oneshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/words"
)

// Service is operations 8, 11 and 12, one attempt for each call. A *service.Client is
// one.
type Service interface {
	OneShot(ctx context.Context, definition service.OneShotETL, file service.File, zone *time.Location) (service.Execution, error)
	OneShotRemote(ctx context.Context, definition service.OneShotETL, zone *time.Location) (service.Execution, error)
	Results(ctx context.Context, execution string) (service.Results, error)
	SaveOutputFiles(ctx context.Context, execution, path string) (service.Output, error)
}

// Watch is told how the import gets on, by one goroutine at a time.
type Watch interface {
	Sending(sent, of int64)         // bytes of the file, as they leave
	Waiting(execution string)       // the service has the file
	Asked(status string, err error) // after each poll that did not end it
}

// Job is one import.
type Job struct {
	Definition service.OneShotETL
	Path       string         // of the file to be sent; "" with Definition.Remote
	Zone       *time.Location // of the table's day
	OutputDir  string         // where output files go
	KeepResult bool           // fetch them without rows in error, too
	Rows       int64          // of the file: if the service says that it has read fewer, Await asks it again; 0: whatever it says
	Poll       retry.Backoff
}

// Result is how an import ended.
type Result struct {
	Execution string `json:"execution"` // "" if the service's answer did not tell
	Status    string `json:"status,omitempty"`
	Error     string `json:"error,omitempty"` // the service's reason of FAILED
	// Counts are nil where the service did not tell.
	Read       *int64 `json:"read,omitempty"`
	InError    *int64 `json:"inError,omitempty"`
	Inserted   *int64 `json:"inserted,omitempty"`
	Updated    *int64 `json:"updated,omitempty"`
	Deleted    *int64 `json:"deleted,omitempty"`
	OutputFile string `json:"outputFile,omitempty"` // the rows in error, or all of them
}

// Whole reports whether every row was loaded, as far as the service tells.
func (r Result) Whole() bool {
	return r.Status == string(service.Finished) && (r.InError == nil || *r.InError == 0)
}

// Unread reports whether the service has read and loaded fewer than so many rows, as for an import
// of the sink.
func (r Result) Unread(rows int64) bool {
	count := func(n *int64) int64 {
		if n == nil {
			return service.Unknown
		}
		return *n
	}
	told := contract.Results{Read: count(r.Read), InError: count(r.InError), Inserted: count(r.Inserted), Updated: count(r.Updated), Deleted: count(r.Deleted)}
	return told.Unread(&contract.Import{Rows: rows})
}

// Text is the result for a terminal.
func (r *Result) Text(table string) string {
	lines := words.Table{{"execution", r.Execution}, {"table", table}, {"status", r.Status}}
	for _, c := range []struct {
		name  string
		count *int64
	}{{"rows read", r.Read}, {"in error", r.InError}, {"inserted", r.Inserted}, {"updated", r.Updated}, {"deleted", r.Deleted}} {
		switch {
		case c.count != nil:
			lines.Count(c.name, *c.count, "")
		case r.Status == "FINISHED":
			lines.Add(c.name, "unknown") // the service does not say
		}
	}
	if r.OutputFile != "" {
		lines.Add("output file", r.OutputFile)
	}
	return lines.String()
}

// Run launches the import, waits for its end and fetches what there is of rows in error. An
// error means that the end is not known; what is, is in the result.
func (j Job) Run(ctx context.Context, api Service, rnd func() float64, watch Watch) (r Result, err error) {
	if r.Execution, err = j.Launch(ctx, api, watch); err != nil {
		return r, err
	}
	if r, err = j.Await(ctx, api, rnd, watch, r.Execution); err != nil {
		return r, err
	}
	if r.Whole() && r.InError != nil && !j.KeepResult {
		return r, nil
	}
	if err := j.outputs(ctx, api, rnd, watch, &r); err != nil {
		return r, fmt.Errorf("execution %s ended %s, but its output files did not come: %w; `feedsink imports files %s` asks for them again", r.Execution, r.Status, err, r.Execution)
	}
	return r, nil
}

// Launch sends the import. After an error it may have been started all the same, unless
// NotStarted says otherwise.
func (j Job) Launch(ctx context.Context, api Service, watch Watch) (execution string, err error) {
	launched, err := j.launch(ctx, api, watch)
	if err != nil {
		return "", service.IfUnknown(err, "the import may have been started all the same and count as one of the day's: look at the service before you repeat it")
	}
	if launched.ID == "" {
		return "", errors.New("the import was launched, but the service's answer names no execution: its end shows in the service alone")
	}
	return launched.ID, nil
}

// NotStarted reports whether an error of Launch says that no import was started.
func NotStarted(err error) bool {
	failed, ok := errors.AsType[*service.Error](err)
	return ok && !failed.Unknown()
}

// Await waits for the end of an import that was launched. An error means that it is not
// known.
func (j Job) Await(ctx context.Context, api Service, rnd func() float64, watch Watch, execution string) (Result, error) {
	r := Result{Execution: execution}
	watch.Waiting(execution)
	err := j.await(ctx, api, rnd, watch, &r)
	if err == nil {
		err = j.readAll(ctx, api, rnd, watch, &r)
	}
	if err != nil {
		return r, fmt.Errorf("execution %s: %w; it goes on without us, and `feedsink imports files %s` fetches what it leaves", execution, err, execution)
	}
	return r, nil
}

// patience is how long output files are asked for again, or a result with all rows read, as in
// the sink: a service may write them after it has said FINISHED.
const patience = 10 * time.Minute

var errNoOutputs = errors.New("there are none, although rows are in error")

// outputs fetches the output files. Where rows are in error there must be some.
func (j Job) outputs(ctx context.Context, api Service, rnd func() float64, watch Watch, r *Result) error {
	due := r.Status == string(service.Finished) && r.InError != nil && *r.InError > 0
	begun := time.Now()
	for attempt := 1; ; attempt++ {
		file, _, err := SaveOutput(ctx, api, r.Execution, j.OutputDir)
		if failed, ok := errors.AsType[*service.Error](err); ok && failed.Kind() == service.NotFound {
			err = nil // there are none
		}
		if err == nil && file == "" && due {
			err = errNoOutputs
		}
		failed, ok := errors.AsType[*service.Error](err)
		again := errors.Is(err, errNoOutputs) || ok && failed.Transient()
		if err == nil || ctx.Err() != nil || !again || time.Since(begun) >= patience {
			r.OutputFile = file
			return err
		}
		watch.Asked(r.Status, err)
		if err := retry.Sleep(ctx, j.Poll.Next(attempt, 0, rnd)); err != nil {
			return err
		}
	}
}

func (j Job) launch(ctx context.Context, api Service, watch Watch) (service.Execution, error) {
	if j.Path == "" {
		return api.OneShotRemote(ctx, j.Definition, j.Zone)
	}
	name, size, packed, err := sized(ctx, j.Path)
	if err != nil {
		return service.Execution{}, err
	}
	file := service.File{Name: name, Open: func() (io.ReadCloser, int64, error) {
		f, err := os.Open(j.Path)
		if err != nil {
			return nil, 0, err
		}
		w := &watched{Reader: f, Closer: f, of: size, watch: watch}
		if packed {
			if w.Reader, err = gzip.NewReader(f); err != nil {
				return nil, 0, errors.Join(err, f.Close())
			}
		}
		return w, size, nil
	}}
	return api.OneShot(ctx, j.Definition, file, j.Zone)
}

// sized is a file as it is sent: operation 8 takes a CSV or a ZIP, so that a GZIP file is unpacked.
func sized(ctx context.Context, path string) (name string, size int64, packed bool, err error) {
	name = filepath.Base(path)
	f, err := os.Open(path)
	if err != nil {
		return name, 0, false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return name, 0, false, err
	}
	head := make([]byte, 4)
	n, _ := f.ReadAt(head, 0)
	switch service.CompressionOf(head[:n]) {
	case service.Zip:
		return withEnding(name, ".zip"), info.Size(), false, nil
	case service.Plain:
		return withEnding(name, ".csv"), info.Size(), false, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return name, 0, false, fmt.Errorf("%s: %w", path, err)
	}
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	if size, err = io.Copy(io.Discard, z); err != nil {
		return name, 0, false, fmt.Errorf("%s: %w", path, cmp.Or(ctx.Err(), err))
	}
	return withEnding(strings.TrimSuffix(name, ".gz"), ".csv"), size, true, nil
}

// withEnding is the name with the ending by which its content type is told.
func withEnding(name, ending string) string {
	switch has := filepath.Ext(name); {
	case has == ending, ending == ".csv" && has != ".gz" && has != ".zip":
		return name
	}
	return name + ending
}

// watched tells how much of a file was read.
type watched struct {
	io.Reader
	io.Closer
	sent, of int64
	watch    Watch
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.sent += int64(n)
	w.watch.Sending(w.sent, w.of)
	return n, err
}

// forgottenPolls is how many polls in a row the service refuses for good before
// its end is not waited for any more, as in the sink: an execution may take a while to
// be known everywhere.
const forgottenPolls = 10

// await polls until the execution has ended. What may succeed later is asked
// again for as long as the caller has patience; that a poll fails does not lengthen
// the interval, which is about how long the import takes. Only so many in a row that
// were refused for good end it.
func (j Job) await(ctx context.Context, api Service, rnd func() float64, watch Watch, into *Result) error {
	answered, refused, after := 0, 0, time.Duration(0)
	for {
		if err := retry.Sleep(ctx, j.Poll.Next(answered+refused+1, after, rnd)); err != nil {
			return err
		}
		got, err := api.Results(ctx, into.Execution)
		failed, ok := errors.AsType[*service.Error](err)
		if err != nil && (!ok || ctx.Err() != nil) {
			return err
		}
		if after = 0; ok {
			after = failed.RetryAfter()
		}
		switch {
		case err == nil:
			answered, refused = answered+1, 0
		case failed.Transient():
			refused = 0
		default:
			if refused++; refused == forgottenPolls {
				return err
			}
		}
		if err == nil && got.Status.Ended() {
			into.tell(got)
			return nil
		}
		watch.Asked(cmp.Or(string(got.Status), string(service.InProgress)), err)
	}
}

// readAll asks again for the result of an import that has FINISHED with fewer rows read than
// its file has, until all are or patience ends.
func (j Job) readAll(ctx context.Context, api Service, rnd func() float64, watch Watch, into *Result) error {
	begun := time.Now()
	for n := 1; j.Rows > 0 && into.Status == string(service.Finished) && into.Unread(j.Rows) && time.Since(begun) < patience; n++ {
		watch.Asked(into.Status, nil)
		if err := retry.Sleep(ctx, j.Poll.Next(n, 0, rnd)); err != nil {
			return err
		}
		got, err := api.Results(ctx, into.Execution)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && got.Status == service.Finished {
			into.tell(got)
		}
	}
	return nil
}

// tell has the result say what the service does.
func (r *Result) tell(got service.Results) {
	c := got.Counters
	r.Status, r.Error = string(got.Status), got.Error
	r.Read, r.InError, r.Inserted = known(c.Read), known(c.InError), known(c.Inserted)
	r.Updated, r.Deleted = known(c.Updated), known(c.Deleted)
}

func known(n int64) *int64 {
	if n == service.Unknown {
		return nil
	}
	return &n
}

// unsafeName is what an id must not bring into a file's name.
var unsafeName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// SaveOutput streams the output files of an execution into one of dir, whose ending
// says what it holds; path is "" where there are none.
func SaveOutput(ctx context.Context, api Service, execution, dir string) (path string, out service.Output, err error) {
	name := filepath.Join(dir, "execution-"+unsafeName.ReplaceAllString(execution, "_"))
	out, err = api.SaveOutputFiles(ctx, execution, name)
	if err != nil || out.Bytes == 0 {
		return "", out, err
	}
	ending := map[service.Compression]string{service.Gzip: ".csv.gz", service.Zip: ".zip"}[out.Compression]
	path = name + cmp.Or(ending, ".csv")
	return path, out, os.Rename(name, path)
}
