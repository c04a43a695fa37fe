package oneshot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/feed"
	"github.com/feedsink/feedsink/connector/retry"
)

// scripted is a service that answers in turn.
type scripted struct {
	execution string
	launch    error
	answers   []answer
	asked     []time.Duration // since the start
	started   time.Time
	saved     int
}

type answer struct {
	results feed.Results
	err     error
}

func (s *scripted) OneShot(context.Context, feed.OneShotETL, feed.File, *time.Location) (feed.Execution, error) {
	return feed.Execution{ID: s.execution}, s.launch
}

func (s *scripted) OneShotRemote(context.Context, feed.OneShotETL, *time.Location) (feed.Execution, error) {
	s.started = time.Now()
	return feed.Execution{ID: s.execution}, s.launch
}

func (s *scripted) Results(context.Context, string) (feed.Results, error) {
	s.asked = append(s.asked, time.Since(s.started))
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	return a.results, a.err
}

func (s *scripted) SaveOutputFiles(context.Context, string, string, int64) (feed.Output, error) {
	s.saved++
	return feed.Output{}, nil
}

type unwatched struct{ waiting string }

func (*unwatched) Sending(int64, int64) {}
func (u *unwatched) Waiting(id string)  { u.waiting = id }
func (*unwatched) Asked(string, error)  {}

func counted(status feed.ExecutionStatus, inError int64) feed.Results {
	return feed.Results{Status: status, Counters: feed.Counters{Read: 3, InError: inError, Inserted: feed.Unsaid, Updated: feed.Unsaid, Deleted: feed.Unsaid}}
}

func run(ctx context.Context, t *testing.T, s *scripted) (Result, error) {
	t.Helper()
	return Job{Poll: retry.Backoff{Initial: 2 * time.Second, Max: 8 * time.Second}}.
		Run(ctx, s, func() float64 { return 1 }, &unwatched{})
}

func TestJobAsksLessAndLessOftenUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := answer{results: feed.Results{Status: feed.InProgress}}
		s := &scripted{execution: "17", answers: []answer{running, {}, running, {results: counted(feed.Finished, 0)}}}
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
		failed := slices.Repeat([]answer{{err: &feed.Error{}}}, 50) // transient
		s := &scripted{execution: "17", answers: append(failed, answer{results: counted(feed.Finished, 0)})}
		if r, err := run(t.Context(), t, s); err != nil || !r.Whole() {
			t.Errorf("got %+v, %v, want it whole", r, err)
		}
		if last := s.asked[len(s.asked)-1]; len(s.asked) != 51 || last != 51*2*time.Second {
			t.Errorf("got %d polls, the last after %v, want 51, each 2s after the one before", len(s.asked), last)
		}
	})
}

func TestJobFetchesWhatAnUnhappyEndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]feed.Results{"rows in error": counted(feed.Finished, 2), "failed": counted(feed.Failed, feed.Unsaid)} {
			s := &scripted{execution: "17", answers: []answer{{results: end}}}
			r, err := run(t.Context(), t, s)
			if err != nil || r.Whole() || s.saved != 1 || r.OutputFile != "" {
				t.Errorf("%s: got %+v, %v, %d saved, want a look for output files of which there are none", name, r, err, s.saved)
			}
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
		s := &scripted{execution: "17", answers: []answer{{results: feed.Results{Status: feed.InProgress}}}}
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
