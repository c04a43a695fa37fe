//go:build simulation

package simulation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// witness stands before the service and sees who calls while the service has asked it
// to wait, and while a person has paused a mapping.
type witness struct {
	service http.Handler
	latency time.Duration // of a message at most
	fail    func(format string, args ...any)

	mu    sync.Mutex
	told  map[string]bool  // by process: it has failed
	asks  map[string][]ask // by process
	calls map[int64]int    // of all processes, by the minute

	resting map[string][]string      // processes, by the table that is paused there
	slow    map[string]time.Duration // how much longer a process's messages may take
	carried map[string]bool          // processes of which the service does what they have sent, though they have gone
	away    map[string]bool          // processes that the service does not reach

	incomplete atomic.Bool // output files have some of their rows
	miscounted atomic.Bool // imports have one row more in error than there is
}

// rests says that a process is to write nothing to a table, until goesOn.
func (s *witness) rests(process, table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting[table] = append(s.resting[table], process)
}

// reaches says whether answers reach a process from now on. Those that are on their way do not, if not.
func (s *witness) reaches(process string, reaches bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away[process] = !reaches
	s.asks[process] = slices.DeleteFunc(s.asks[process], func(a ask) bool { return !reaches && a.from.After(time.Now()) })
}

func (s *witness) goesOn(table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.resting, table)
}

// slows says that a process's messages may take so much longer.
func (s *witness) slows(process string, more time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow[process] = max(more, s.slow[process])
}

// carryOut has the service do what a process has sent, be it still there or not.
func (s *witness) carryOut(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried[process] = true
}

// writtenTo is the table of a request, by its name or its ETL's id; "": it has none, or
// nothing is written.
func writtenTo(r *http.Request) string {
	switch path := r.URL.Path; {
	case r.Method == http.MethodGet:
		return ""
	case strings.Contains(path, "/customers/"), strings.Contains(path, "/etls/1"):
		return "customers"
	case strings.Contains(path, "/orders/"), strings.Contains(path, "/etls/2"):
		return "orders"
	}
	return ""
}

// window is how many minutes' calls are counted together to see whether they keep the rate.
const window = 5

// judgeRate looks for minutes with clearly more calls than the rate allows all members
// together. When members come and go, each may have the others' share for a short time.
func (s *witness) judgeRate(perMinute int) (wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := perMinute * window
	for minute := range s.calls {
		n := 0
		for i := range int64(window) {
			n += s.calls[minute+i]
		}
		if perMinute > 0 && n > most+most/2 {
			begun := time.Unix(minute*60, 0).UTC()
			wrong = append(wrong, fmt.Sprintf("rate: %d calls in the %d minutes from %s, want %d", n, window, begun.Format(millis), most))
		}
	}
	return wrong
}

// ask is a time in which no call is wanted. Calls that come before it may have begun
// before the process knew.
type ask struct{ from, until time.Time }

func (s *witness) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || strings.Contains(r.URL.Path, "/record/") {
		s.look(r)
	}
	if r.URL.Path != "/auth/token" { // what is asked there holds tokens, not calls
		out = seen{out, r.RemoteAddr, s}
	}
	s.mu.Lock()
	carried := s.carried[r.RemoteAddr]
	s.mu.Unlock()
	if carried {
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	if s.incomplete.Load() && strings.HasSuffix(r.URL.Path, "/output-files") {
		s.cutOutputs(out, r)
		return
	}
	if s.miscounted.Load() && r.Method == http.MethodGet {
		s.miscount(out, r)
		return
	}
	if s.refuses(r) {
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(out, `{"error":"the note is refused"}`) // likewise
		return
	}
	s.service.ServeHTTP(out, r)
}

// refuses reports whether a call says a note that the service takes in no table.
func (s *witness) refuses(r *http.Request) bool {
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/record") && !strings.Contains(r.URL.Path, "/profiles") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && bytes.Contains(body, []byte(`"refused `))
}

// inError is the counter of an import's rows in error.
var inError = regexp.MustCompile(`"linesInError":(\d+)`)

// miscount answers with one more of them.
func (s *witness) miscount(out http.ResponseWriter, r *http.Request) {
	right := httptest.NewRecorder()
	s.service.ServeHTTP(right, r)
	maps.Copy(out.Header(), right.Header())
	out.Header().Del("Content-Length")
	out.WriteHeader(right.Code)
	_, _ = out.Write(inError.ReplaceAll(right.Body.Bytes(), []byte(`"linesInError":1$1`))) // likewise
}

// cutOutputs answers an output file without the second half of its rows, or the only one.
func (s *witness) cutOutputs(out http.ResponseWriter, r *http.Request) {
	whole := httptest.NewRecorder()
	s.service.ServeHTTP(whole, r)
	body := whole.Body.Bytes()
	if strings.HasPrefix(whole.Header().Get("Content-Type"), "text/csv") { // no ZIP
		lines := bytes.SplitAfter(body, []byte("\n"))
		body = bytes.Join(lines[:1+(len(lines)-2)/2], nil) // behind the last line comes nothing
	}
	maps.Copy(out.Header(), whole.Header())
	out.Header().Del("Content-Length")
	out.WriteHeader(whole.Code)
	_, _ = out.Write(body) // a client that has gone needs no answer
}

func (s *witness) look(r *http.Request) {
	now, process := time.Now(), r.RemoteAddr
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(r.URL.Path, "/record") || strings.Contains(r.URL.Path, "/profiles") {
		s.calls[now.Unix()/60]++
	}
	if table := writtenTo(r); slices.Contains(s.resting[table], process) && !s.told[process] {
		s.told[process] = true
		s.fail("%s calls %s %s at %s, and %s is paused", process, r.Method, r.URL.Path, now.UTC().Format(millis), table)
	}
	s.asks[process] = slices.DeleteFunc(s.asks[process], func(a ask) bool { return !now.Before(a.until) })
	for _, a := range s.asks[process] {
		if now.After(a.from) && !s.told[process] {
			s.told[process] = true
			s.fail("%s calls %s %s at %s, and was asked to wait from %s (at the latest) until %s", process, r.Method, r.URL.Path,
				now.UTC().Format(millis), a.from.UTC().Format(millis), a.until.UTC().Format(millis))
		}
	}
}

const millis = "15:04:05.000"

// seen hears what the service answers.
type seen struct {
	http.ResponseWriter
	process string
	by      *witness
}

// Unwrap is for [http.ResponseController].
func (a seen) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a seen) WriteHeader(status int) {
	if seconds, err := strconv.Atoi(a.Header().Get("Retry-After")); err == nil && status == http.StatusTooManyRequests {
		now := time.Now()
		a.by.mu.Lock()
		if !a.by.away[a.process] {
			a.by.asks[a.process] = append(a.by.asks[a.process], ask{now.Add(3 * (a.by.latency + a.by.slow[a.process])), now.Add(time.Duration(seconds) * time.Second)})
		}
		a.by.mu.Unlock()
	}
	a.ResponseWriter.WriteHeader(status)
}
