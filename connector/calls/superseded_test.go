package calls

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// TestSupersededStateIsNotRepeated: another lane has written the key since, and what
// this one sent is older.
func TestSupersededStateIsNotRepeated(t *testing.T) {
	for name, at := range map[string]time.Duration{
		"while the call is under way": 5 * time.Millisecond,
		"while it is tried again":     15 * time.Millisecond,
		"after the newer one":         10 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			service := &script{answer: failsOnce(errUnavailable)}
			cfg := config()
			cfg.RepeatAfter = lateness
			run(t, cfg, service, func(t *testing.T, s *stage) {
				s.put(schemas.Upsert, "k", "1")
				pass(time.Millisecond)
				s.put(schemas.Upsert, "k", "2")
				pass(at)
				row := write(schemas.Upsert, "k", "3")
				s.Superseded(&row)
				pass(time.Hour)
				s.want("calls", service.calls("k"), "upsert 1, upsert 1?, upsert 2")
				if got := s.kept(); got != 0 {
					t.Errorf("keys kept in the end: got %d, want 0", got)
				}
			})
		})
	}
}

// TestNothingIsMergedOverARowOfTheOtherLane: the row's import may wait for the older write,
// and the newer one for that import.
func TestNothingIsMergedOverARowOfTheOtherLane(t *testing.T) {
	service := &script{answer: failsOnce(errUnavailable)}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		s.put(schemas.Upsert, "k", "1")
		pass(time.Millisecond)
		s.put(schemas.Upsert, "k", "2")
		row := write(schemas.Upsert, "k", "3")
		s.Superseded(&row)
		s.put(schemas.Upsert, "k", "4")
		s.put(schemas.Upsert, "k", "5")
		pass(time.Hour)
		s.want("calls", service.calls("k"), "upsert 1, upsert 1?, upsert 2, upsert 5")
	})
}

func TestNothingIsRepeatedWhereItMayNotBeTheNewest(t *testing.T) {
	service := &script{answer: failsOnce(errUnavailable)}
	cfg := config()
	cfg.RepeatAfter = lateness
	cfg.Repeats = func(schemas.Table) bool { return false }
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.put(schemas.Upsert, "k", "1")
		pass(time.Second)
		s.put(schemas.Upsert, "k", "2")
		pass(time.Hour)
		s.want("calls", service.calls("k"), "upsert 1, upsert 1?, upsert 2")
		s.heard.mu.Lock()
		defer s.heard.mu.Unlock()
		if s.heard.notRepeated != 1 {
			t.Errorf("reported as not repeated: got %d, want 1", s.heard.notRepeated)
		}
	})
}
