package oneshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
)

// scripted is a service that answers in turn.
type scripted struct {
	execution string
	launch    error
	answers   []answer
	asked     []time.Duration // since the start
	started   time.Time
	saved     int
	sent      map[string]string // files, by their names
	outputs   []output          // answers to operation 12 in turn, the last one again and again; none: there are none
}

type output struct {
	out service.Output
	err error
}

type answer struct {
	results service.Results
	err     error
}

func (s *scripted) OneShot(_ context.Context, _ service.OneShotETL, file service.File, _ *time.Location) (service.Execution, error) {
	for range 2 { // a request may be repeated
		r, size, err := file.Open()
		if err != nil {
			return service.Execution{}, err
		}
		content, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || int64(len(content)) != size {
			return service.Execution{}, fmt.Errorf("%s: %d bytes of %d: %w", file.Name, len(content), size, err)
		}
		s.sent[file.Name] = string(content)
	}
	return service.Execution{ID: s.execution}, s.launch
}

func (s *scripted) OneShotRemote(context.Context, service.OneShotETL, *time.Location) (service.Execution, error) {
	s.started = time.Now()
	return service.Execution{ID: s.execution}, s.launch
}

func (s *scripted) Results(context.Context, string) (service.Results, error) {
	s.asked = append(s.asked, time.Since(s.started))
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	return a.results, a.err
}

func (s *scripted) SaveOutputFiles(_ context.Context, _, path string) (service.Output, error) {
	s.saved++
	if len(s.outputs) == 0 {
		return service.Output{}, nil
	}
	o := s.outputs[min(s.saved, len(s.outputs))-1]
	if o.out.Bytes > 0 {
		return o.out, os.WriteFile(path, []byte("rows"), 0o600)
	}
	return o.out, o.err
}

type unwatched struct{ waiting string }

func (*unwatched) Sending(int64, int64) {}
func (u *unwatched) Waiting(id string)  { u.waiting = id }
func (*unwatched) Asked(string, error)  {}

func counted(status service.ExecutionStatus, inError int64) service.Results {
	return service.Results{Status: status, Counters: service.Counters{Read: 3, InError: inError, Inserted: service.Unknown, Updated: service.Unknown, Deleted: service.Unknown}}
}

func run(ctx context.Context, t *testing.T, s *scripted) (Result, error) {
	t.Helper()
	return Job{Poll: retry.Backoff{Initial: 2 * time.Second, Max: 8 * time.Second}}.
		Run(ctx, s, func() float64 { return 1 }, &unwatched{})
}

func TestJobAsksLessAndLessOftenUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := answer{results: service.Results{Status: service.InProgress}}
		s := &scripted{execution: "17", answers: []answer{running, {}, running, {results: counted(service.Finished, 0)}}}
		r, err := run(t.Context(), t, s)
		if err != nil || !r.Whole() || *r.Read != 3 || r.Inserted != nil || s.saved != 0 {
			t.Errorf("got %+v, %v, %d saved, want 3 rows read, nothing said of inserted and nothing saved", r, err, s.saved)
		}
		want := []time.Duration{2 * time.Second, 6 * time.Second, 14 * time.Second, 22 * time.Second}
		if len(s.asked) != len(want) || s.asked[3] != want[3] || s.asked[1] != want[1] {
			t.Errorf("asked: got %v, want %v", s.asked, want)
		}
	})
}

func TestOutageDoesNotLengthenTheIntervalOfPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := slices.Repeat([]answer{{err: &service.Error{}}}, 50) // transient
		s := &scripted{execution: "17", answers: append(failed, answer{results: counted(service.Finished, 0)})}
		if r, err := run(t.Context(), t, s); err != nil || !r.Whole() {
			t.Errorf("got %+v, %v, want it whole", r, err)
		}
		if last := s.asked[len(s.asked)-1]; len(s.asked) != 51 || last != 51*2*time.Second {
			t.Errorf("got %d polls, the last after %v, want 51, each 2s after the one before", len(s.asked), last)
		}
	})
}

func TestJobLooksForOutputFilesWhereTheyTellMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]service.Results{"rows in error are not counted": counted(service.Finished, service.Unknown), "failed": counted(service.Failed, service.Unknown)} {
			s := &scripted{execution: "17", answers: []answer{{results: end}}}
			r, err := run(t.Context(), t, s)
			if err != nil || s.saved != 1 || r.OutputFile != "" {
				t.Errorf("%s: got %+v, %v, %d saved, want a look for output files of which there are none", name, r, err, s.saved)
			}
		}
	})
}

func TestJobAsksAgainForOutputFilesThatAreNotThereYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Chdir(t.TempDir())
		s := &scripted{execution: "17", answers: []answer{{results: counted(service.Finished, 2)}}}
		s.outputs = []output{{}, {}, {out: service.Output{Bytes: 4}}}
		r, err := run(t.Context(), t, s)
		if err != nil || s.saved != 3 || r.OutputFile != "execution-17.csv" {
			t.Errorf("there after a while: got %+v, %v, %d looks, want the file after 3", r, err, s.saved)
		}
		began := time.Now()
		s = &scripted{execution: "17", answers: []answer{{results: counted(service.Finished, 2)}}}
		r, err = run(t.Context(), t, s)
		if err == nil || !strings.Contains(err.Error(), "feedsink imports files 17") || r.OutputFile != "" {
			t.Errorf("never there: got %+v, %v, want an error that says how to ask again", r, err)
		}
		if took := time.Since(began); took < patience || took > 2*patience {
			t.Errorf("never there: got it after %v, want %v", took, patience)
		}
	})
}

// A disk that does not take them is the person's to see to.
func TestJobSaysThatOutputFilesCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{execution: "17", answers: []answer{{results: counted(service.Finished, 2)}}}
		s.outputs = []output{{err: errors.New("no space left on device")}}
		if _, err := run(t.Context(), t, s); err == nil || s.saved != 1 || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "feedsink imports files 17") {
			t.Errorf("got %v after %d looks, want the disk's error and how to ask again", err, s.saved)
		}
	})
}

func TestJobSaysWhatIsKnownWhenTheEndIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := run(t.Context(), t, &scripted{}); err == nil || !strings.Contains(err.Error(), "names no execution") {
			t.Errorf("no id: got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &scripted{execution: "17", answers: []answer{{results: service.Results{Status: service.InProgress}}}}
		r, err := run(ctx, t, s)
		if !errors.Is(err, context.DeadlineExceeded) || r.Execution != "17" || !strings.Contains(err.Error(), "feedsink imports files 17") {
			t.Errorf("interrupted: got %+v, %v, want the execution and how to go on", r, err)
		}
		s = &scripted{execution: "17", answers: []answer{{err: errors.New("broken")}}}
		if _, err := run(t.Context(), t, s); err == nil || !strings.Contains(err.Error(), "execution 17: broken") {
			t.Errorf("a poll that cannot succeed: got %v", err)
		}
	})
}

// A service may count what it has read after it has said FINISHED.
func TestJobAsksAgainWhileTheServiceHasReadTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := func(n int64) answer {
			r := counted(service.Finished, 0)
			r.Counters.Read, r.Counters.Inserted = n, n
			return answer{results: r}
		}
		await := func(rows int64, answers ...answer) Result {
			s := &scripted{started: time.Now(), answers: answers}
			r, err := Job{Rows: rows, Poll: retry.Backoff{Initial: 2 * time.Second, Max: time.Minute}}.Await(t.Context(), s, func() float64 { return 1 }, &unwatched{}, "17")
			if took := time.Since(s.started); err != nil || took > patience+2*time.Minute || r.Unread(3) && rows > 0 && took < patience {
				t.Errorf("got %+v, %v after %v, want it asked for %v at most, and so long where rows stay unread", r, err, took, patience)
			}
			return r
		}
		for _, c := range []struct {
			rows, want int64
			answers    []answer
		}{
			{3, 3, []answer{read(1), {err: &service.Error{}}, {results: service.Results{Status: service.InProgress}}, read(2), read(3)}},
			{3, 1, []answer{read(1)}},
			{0, 1, []answer{read(1), read(3)}},
		} {
			if r := await(c.rows, c.answers...); *r.Read != c.want || r.Status != "FINISHED" {
				t.Errorf("a file of %d rows: got %d read, %s, want %d", c.rows, *r.Read, r.Status, c.want)
			}
		}
	})
}

// TestFileIsSentAsACSVOrAZIP: operation 8 takes no other, and what it is its name tells.
func TestFileIsSentAsACSVOrAZIP(t *testing.T) {
	const csv, zip = "k,a\n1,x\n", "PK\x03\x04 and so on"
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(csv))
	_ = z.Close()
	s := &scripted{sent: map[string]string{}, execution: "e1"}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.csv": csv, "b.csv.gz": packed.String(), "c.zip": zip, "d.csv": zip, "e.csv": packed.String(), "f.gz": csv, "G.ZIP": zip, "h.txt": csv,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (Job{Path: path}).Launch(t.Context(), s, &unwatched{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := map[string]string{"a.csv": csv, "b.csv": csv, "c.zip": zip, "d.csv.zip": zip, "e.csv": csv, "f.gz.csv": csv, "G.ZIP.zip": zip, "h.txt": csv}
	if !maps.Equal(s.sent, want) {
		t.Errorf("got %q, want %q", s.sent, want)
	}
}
