package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lines are what was written, without their times.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, line, _ := strings.Cut(strings.TrimSpace(string(p)), " level=")
	l.text = append(l.text, latest.ReplaceAllString(line, ""))
	return len(p), nil
}

// latest is when a line was logged that was held back.
var latest = regexp.MustCompile(` latest=\S+`)

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text)
}

// written opens a log and gives what it writes, without the lines looked at before.
func written(t *testing.T, cfg Config) (*Log, func() []string) {
	t.Helper()
	out := &lines{}
	log, err := New(out, cfg)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	return log, func() []string {
		synctest.Wait()
		all := out.all()
		defer func() { seen = len(all) }()
		return all[seen:]
	}
}

func expect(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestRepeatedWarningsAreOneLineAMinuteThatSaysHowManyWereLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{})
		defer log.Close()
		away := errors.New("connection refused")
		for i := range 100 {
			log.Warn("no token yet", "attempt", i, "error", away)
			time.Sleep(300 * time.Millisecond) // virtual: half a minute in all
		}
		expect(t, "at once", news(), `WARN msg="no token yet" attempt=0 error="connection refused"`)
		time.Sleep(30 * time.Second)
		expect(t, "a minute later", news(), `WARN msg="no token yet" attempt=99 error="connection refused" suppressed=98`)
		log.Warn("no token yet", "attempt", 100, "error", away)
		expect(t, "in the next window", news())
		time.Sleep(time.Minute)
		expect(t, "at its end", news(), `WARN msg="no token yet" attempt=100 error="connection refused"`)
		time.Sleep(time.Minute + time.Second) // past the moment at which a window may end or not
		log.Warn("no token yet", "attempt", 0, "error", away)
		expect(t, "after a quiet window", news(), `WARN msg="no token yet" attempt=0 error="connection refused"`)
	})
}

// TestTheKafkaClientsTriesAreOneKind: it counts them in words of its own.
func TestTheKafkaClientsTriesAreOneKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{})
		defer log.Close()
		for i := range 12 {
			log.Warn("kafka client: group manage loop errored", "group", "g", "err", "refused", "consecutive_errors", i+1, "backoff", time.Duration(i)*time.Second) //nolint:sloglint // err is the client's
		}
		expect(t, "at once", news(), `WARN msg="kafka client: group manage loop errored" group=g err=refused consecutive_errors=1 backoff=0s`)
	})
}

func TestLinesThatDifferAreNeverHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{})
		defer log.Close()
		customers, orders := log.With("mapping", "customers"), log.With("mapping", "orders")
		for range 2 { // the second round is held back
			customers.Error("import FAILED", "reason", "row 7")
			customers.Error("import FAILED", "reason", "row 8")
			orders.Error("import FAILED", "reason", "row 7")
			customers.Warn("import FAILED", "reason", "row 7")
			log.WithGroup("g").Error("import FAILED", "mapping", "customers", "reason", "row 7")
		}
		expect(t, "five kinds", news(),
			`ERROR msg="import FAILED" mapping=customers reason="row 7"`,
			`ERROR msg="import FAILED" mapping=customers reason="row 8"`,
			`ERROR msg="import FAILED" mapping=orders reason="row 7"`,
			`WARN msg="import FAILED" mapping=customers reason="row 7"`,
			`ERROR msg="import FAILED" g.mapping=customers g.reason="row 7"`)
		for range 3 {
			customers.Info("import triggered", "rows", 7)
		}
		if got := news(); len(got) != 3 {
			t.Errorf("what merely happened: got %q, want it three times", got)
		}
	})
}

func TestWhereItHappenedMakesNoOtherKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{})
		defer log.Close()
		for i := range 2000 {
			err := fmt.Errorf("read tcp [::1]:%d->10.0.0.1:443: connection reset", 40000+i)
			log.Warn("records can't be fetched", "topic", "crm", "partition", i, "wait", time.Duration(i), "error", err)
		}
		if got := news(); len(got) != 1 {
			t.Errorf("at once: got %d lines, want 1: %q", len(got), got)
		}
		time.Sleep(time.Minute)
		if got := news(); len(got) != 1 || !strings.HasSuffix(got[0], "suppressed=1998") {
			t.Errorf("a minute later: got %q, want one with suppressed=1998", got)
		}
	})
}

func TestLinesHeldBackAreWrittenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{})
		for range 3 {
			log.Warn("a")
			log.Warn("b")
		}
		log.Close()
		expect(t, "closed", news(), "WARN msg=a", "WARN msg=b", "WARN msg=a suppressed=1", "WARN msg=b suppressed=1")
		log.Warn("a")
		log.Warn("a")
		expect(t, "after the end", news(), "WARN msg=a", "WARN msg=a")
	})
}

func TestLastLineComesAfterThoseHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{})
		child := log.With("lane", "batch")
		for range 3 {
			child.Warn("no token yet")
		}
		child.Handler().(interface{ Flush() }).Flush()
		child.Info("stopped")
		log.Close()
		expect(t, "stopped", news(), `WARN msg="no token yet" lane=batch`,
			`WARN msg="no token yet" lane=batch suppressed=1`, `INFO msg=stopped lane=batch`)
	})
}

func TestAnswersAreNeverHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{})
		child := log.With("lane", "batch")
		answers := slog.New(child.Handler().(interface{ Unfolded() slog.Handler }).Unfolded())
		child.Error("not reloaded")
		for range 2 {
			answers.Error("not reloaded")
		}
		const line = "ERROR msg=\"not reloaded\" lane=batch"
		expect(t, "at once", news(), line, line, line)
		log.Close()
		expect(t, "closed", news())
	})
}

func TestMemoryOfKindsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{})
		defer log.Close()
		for range 2 {
			for i := range 3 * maxKinds {
				log.Warn("told", "id", i)
			}
		}
		if got, want := len(news()), 3*maxKinds+2*maxKinds; got != want {
			t.Errorf("lines: got %d, want %d: those beyond the bound are never held back", got, want)
		}
		if got := len(log.folder.kinds); got != maxKinds {
			t.Errorf("kinds remembered: got %d, want %d", got, maxKinds)
		}
	})
}

func TestLevelChangesWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, news := written(t, Config{Level: "warn"})
		defer log.Close()
		child := log.With("lane", "batch") // made before the change
		child.Info("quiet")
		if err := log.SetLevel("DEBUG"); err != nil || log.Level() != "debug" {
			t.Errorf("got level %s and %v, want debug", log.Level(), err)
		}
		child.Debug("loud")
		expect(t, "debug", news(), "DEBUG msg=loud lane=batch")
		if err := log.SetLevel("loud"); err == nil || log.Level() != "debug" {
			t.Errorf("an unknown word: got %v and level %s, want an error and no change", err, log.Level())
		}
	})
}

func TestFormatsAndLevelsAreCheckedAtTheStart(t *testing.T) {
	for _, cfg := range []Config{{Level: "verbose"}, {Format: "xml"}} {
		if log, err := New(&lines{}, cfg); err == nil {
			log.Close()
			t.Errorf("%+v: got no error", cfg)
		}
	}
	var text strings.Builder
	log, err := New(&text, Config{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("ready", slog.Int("lanes", 2))
	log.Close()
	if got := text.String(); !strings.HasPrefix(got, `{"time":`) || !strings.Contains(got, `"lanes":2`) {
		t.Errorf("got %s, want a line of JSON", got)
	}
}

func TestLinesAreInTheOrderOfTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log, err := New(&text, Config{Format: "json"})
		if err != nil {
			t.Fatal(err)
		}
		held := time.Now().Add(time.Second)
		for range 3 {
			log.Warn("no token yet")
			time.Sleep(500 * time.Millisecond)
		}
		log.Info("ready")
		time.Sleep(time.Minute)
		log.Close()
		var last time.Time
		for line := range strings.Lines(text.String()) {
			var of struct{ Time, Latest time.Time }
			if err := json.Unmarshal([]byte(line), &of); err != nil {
				t.Fatal(err)
			}
			if of.Time.Before(last) || !of.Latest.IsZero() && !of.Latest.Equal(held) {
				t.Errorf("got %safter a line of %v, want a later time, and %v as the latest of those held back", line, last, held)
			}
			last = of.Time
		}
		if got := strings.Count(text.String(), "\n"); got != 3 {
			t.Errorf("got %d lines, want 3", got)
		}
	})
}
