package service

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const closing = time.Millisecond

// slowFile is a File of so many pieces of 1 KiB, each a while after the last.
type slowFile struct {
	pieces int
	pause  time.Duration
	opened atomic.Int64
	read   atomic.Int64
	closed atomic.Int64
}

func (f *slowFile) file() File {
	return File{Name: "f.csv", Open: func() (io.ReadCloser, int64, error) {
		f.opened.Add(1)
		return &slowReader{f, f.pieces}, int64(f.pieces) << 10, nil
	}}
}

type slowReader struct {
	*slowFile
	left int
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(r.pause)
	r.left--
	r.read.Add(1)
	return copy(p, make([]byte, 1<<10)), nil
}

// Close takes a while, so that a test sees whether anybody waits for it.
func (r *slowReader) Close() error {
	time.Sleep(closing)
	r.closed.Add(1)
	return nil
}

func TestUploadIsAFormOfKnownLength(t *testing.T) {
	parts := map[string]string{}
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || r.ContentLength <= 0 {
			t.Errorf("got content type error %v, length %d", err, r.ContentLength)
		}
		form := multipart.NewReader(r.Body, params["boundary"])
		for {
			part, err := form.NextPart()
			if err != nil {
				break
			}
			content, _ := io.ReadAll(part)
			parts[part.FormName()] = part.FileName() + "|" + part.Header.Get("Content-Type") + "|" + string(content)
		}
		_, _ = io.WriteString(w, `{"executionId":77}`)
	}}
	c := s.start(t)
	file := fileOf("a,b\n1,2\n")
	file.Name = `cust"omers.csv`
	got, err := c.OneShot(t.Context(), oneShotETL(), file, nil)
	if err != nil || got.ID != "77" {
		t.Fatalf("got %+v, %v; want execution 77", got, err)
	}
	want := map[string]string{
		"oneshotEtl": "|application/json|" + string(raw(oneShotETL())),
		"inputFile":  "cust\"omers.csv|text/csv|a,b\n1,2\n",
	}
	for name, part := range want {
		if parts[name] != part {
			t.Errorf("part %s: got %q, want %q", name, parts[name], part)
		}
	}
}

func TestSlowUploadThatMovesIsNotTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil || n != r.ContentLength {
				t.Errorf("service read %d of %d bytes, %v", n, r.ContentLength, err)
			}
			_, _ = io.WriteString(w, `"e1"`)
		}}
		c := s.startInBubble(t)
		start := time.Now()
		f := &slowFile{pieces: 60, pause: 20 * time.Second} // 20 minutes, the timeout is 30 s
		got, err := c.Trigger(t.Context(), "101", f.file(), nil)
		if err != nil || got.ID != "e1" || time.Since(start) < 20*time.Minute {
			t.Errorf("got %+v, %v after %v; want e1", got, err, time.Since(start))
		}
		if f.closed.Load() != f.opened.Load() {
			t.Errorf("file opened %d times, closed %d times", f.opened.Load(), f.closed.Load())
		}
	})
}

func TestStalledUploadIsTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		s := &service{calls: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 10<<10)
			<-over
		}}
		c := s.startInBubble(t)
		start := time.Now()
		f := &slowFile{pieces: 1000}
		_, err := c.Trigger(t.Context(), "101", f.file(), nil)
		e := errorOf(t, err)
		if e.Kind() != Transient || !e.Overload() || time.Since(start) != 30*time.Second+closing {
			t.Errorf("got %v (%v) after %v, want a timeout after 30s and the file's closing", e, e.Kind(), time.Since(start))
		}
		if e.Unknown() {
			t.Errorf("got an unknown outcome for an upload that was cut")
		}
		if f.closed.Load() != f.opened.Load() {
			t.Errorf("file opened %d times, closed %d times", f.opened.Load(), f.closed.Load())
		}
	})
}

func TestFileIsLetGoBeforeTheCallReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 10<<10)
			w.WriteHeader(http.StatusBadRequest) // in the middle of the file
		}}
		c := s.startInBubble(t)
		f := &slowFile{pieces: 1000, pause: time.Second}
		_, err := c.Trigger(t.Context(), "101", f.file(), nil)
		if e := errorOf(t, err); e.Kind() != Rejected {
			t.Errorf("got %v (%v), want rejected", e, e.Kind())
		}
		if f.closed.Load() != f.opened.Load() {
			t.Errorf("file opened %d times, closed %d times", f.opened.Load(), f.closed.Load())
		}
	})
}

func TestUploadWithoutAnAnswerIsOfUnknownOutcome(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		reset(w)
	}}
	_, err := s.start(t).Trigger(t.Context(), "101", fileOf("a\n"), nil)
	if e := errorOf(t, err); !e.Unknown() || e.Kind() != Transient {
		t.Errorf("got %v (unknown %v), want unknown", e, e.Unknown())
	}
}

func TestUploadIsRepeatedWholeWithANewToken(t *testing.T) {
	s := &service{revoked: func(token string) bool { return token == "T1" }}
	s.calls = func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), "a,b\n1,2\n") {
			t.Errorf("got body %q, %v", body, err)
		}
		_, _ = io.WriteString(w, `{"id":"e1"}`)
	}
	got, err := s.start(t).Trigger(t.Context(), "101", fileOf("a,b\n1,2\n"), nil)
	if err != nil || got.ID != "e1" || s.fetches.Load() != 2 {
		t.Errorf("got %+v, %v after %d tokens; want e1 after 2", got, err, s.fetches.Load())
	}
}

func TestRefusalComesBeforeTheFile(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }}
	f := &slowFile{pieces: 64 << 10} // 64 MiB
	_, err := s.start(t).Trigger(t.Context(), "101", f.file(), nil)
	if e := errorOf(t, err); e.Kind() != Throttled || e.Unknown() {
		t.Errorf("got %v (%v), want throttled", e, e.Kind())
	}
	if f.read.Load() != 0 {
		t.Errorf("got %d KiB of the file read, want none", f.read.Load())
	}
}

func TestServerThatMayNotBeAskedGetsTheFileAtOnce(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `1`)
	}}
	got, err := s.start(t).Trigger(t.Context(), "101", fileOf("a\n"), nil)
	if err != nil || got.ID != "1" {
		t.Errorf("got %+v, %v; want execution 1", got, err)
	}
}

var errDisk = errors.New("disk on fire")

func TestFailuresOfTheFileAreNotTheServices(t *testing.T) {
	s := &service{calls: func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }}
	c := s.start(t)
	text := func(content string, size int64) func() (io.ReadCloser, int64, error) {
		return func() (io.ReadCloser, int64, error) { return io.NopCloser(strings.NewReader(content)), size, nil }
	}
	cases := map[string]struct {
		open func() (io.ReadCloser, int64, error)
		want error
	}{
		"missing": {func() (io.ReadCloser, int64, error) { return nil, 0, errDisk }, errDisk},
		"broken": {func() (io.ReadCloser, int64, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("ab"), failing{})), 100, nil
		}, errDisk},
		"shorter": {text("abc", 4), errFileChanged},
		"longer":  {text("abcde", 4), errFileChanged},
	}
	for name, tc := range cases {
		_, err := c.Trigger(t.Context(), "101", File{Name: "f", Open: tc.open}, nil)
		if _, ok := errors.AsType[*Error](err); ok || !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v (%T), want %v and no *Error", name, err, err, tc.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "trigger import 101: ") {
			t.Errorf("%s: got %q, want the operation in front", name, err)
		}
	}
	s.calls = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a\n") }
	_, err := c.OutputFiles(t.Context(), "9", failing{})
	if _, ok := errors.AsType[*Error](err); ok || !errors.Is(err, errDisk) {
		t.Errorf("download: got %v (%T), want %v and no *Error", err, err, errDisk)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errDisk }
func (failing) Write([]byte) (int, error) { return 0, errDisk }

func TestSlowDownloadThatMovesIsNotTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pieces := 60
		s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
			for range pieces {
				_, _ = io.WriteString(w, "row\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(20 * time.Second)
			}
			if pieces < 60 {
				<-r.Context().Done()
			}
		}}
		c := s.startInBubble(t)
		out, err := c.OutputFiles(t.Context(), "9", io.Discard)
		if err != nil || out.Bytes != 240 {
			t.Errorf("got %+v, %v; want 240 bytes", out, err)
		}
		pieces = 3
		_, err = c.OutputFiles(t.Context(), "9", io.Discard)
		if e := errorOf(t, err); !e.Overload() {
			t.Errorf("stalled: got %v, want a timeout", e)
		}
	})
}

func TestContentTypeFollowsTheFilesName(t *testing.T) {
	for name, want := range map[string]string{
		"customers-1.upsert.csv.gz":  "application/gzip",
		"customers-1.upsert.csv.zip": "application/zip",
		"customers-1.upsert.csv":     "text/csv",
		"gz":                         "text/csv",
	} {
		if got := contentType(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
