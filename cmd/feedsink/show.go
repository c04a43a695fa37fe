package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/dev"
)

// show produces the sample events and tells how the sink gets on with them.
type show struct {
	out       *screen
	world     *dev.Playground
	sink      *connector.Sink
	generator *dev.Generator
	started   time.Time
	took      time.Duration
	progress  dev.Progress
}

const (
	chunk       = 500 // events produced at once
	trickle     = 20  // events per step when there is no end
	step        = 250 * time.Millisecond
	stuckAfter  = 2 * time.Minute // without any progress
	interrupted = "interrupted before every event was confirmed"
)

// play produces events, all at once if their number is known, and returns when
// all are confirmed, or at the interrupt if there is no end.
func (s *show) play(ctx context.Context, events int) error {
	tick := time.NewTicker(step)
	defer tick.Stop()
	moved, before := time.Now(), int64(-1)
	for made := 0; ; {
		if n := s.due(events, made); n > 0 {
			if err := s.produce(ctx, n); err != nil && ctx.Err() == nil {
				return err
			}
			made += n
		}
		if events == 0 || made == events {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		if ctx.Err() != nil {
			s.out.end()
			if events > 0 {
				return errors.New(interrupted)
			}
			return nil
		}
		var err error
		if s.progress, err = s.world.Progress(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		s.took = time.Since(s.started)
		s.out.line(s.line())
		if events > 0 && made == events && s.progress.Done() {
			s.out.end()
			return nil
		}
		if s.progress.Confirmed != before {
			moved, before = time.Now(), s.progress.Confirmed
		}
		if events > 0 && time.Since(moved) > stuckAfter {
			s.out.end()
			return fmt.Errorf("nothing was confirmed for %v; %d of %d events are", stuckAfter, s.progress.Confirmed, s.progress.Produced)
		}
	}
}

func (s *show) due(events, made int) int {
	if events == 0 {
		return trickle
	}
	return min(chunk, events-made)
}

func (s *show) produce(ctx context.Context, n int) error {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = s.generator.Next()
	}
	return s.world.Produce(ctx, records...)
}

// line is the state in one line.
func (s *show) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.1fs  %d of %d events confirmed", s.took.Seconds(), s.progress.Confirmed, s.progress.Produced)
	st, ok := s.sink.Status().(connector.Status)
	if !ok {
		return b.String()
	}
	for _, l := range st.Lanes {
		if l.Calls != nil {
			fmt.Fprintf(&b, " | calls: %d answered, %d in flight", s.calls(), l.Calls.InFlight)
		}
	}
	for _, m := range st.Mappings {
		if m.Batch != nil {
			fmt.Fprintf(&b, " | %s: %d rows in the open file", m.Name, m.Batch.Rows)
			if m.Batch.Import != nil {
				fmt.Fprintf(&b, ", import %s", m.Batch.Import.Step)
			}
		}
	}
	if s.progress.Dead > 0 {
		fmt.Fprintf(&b, " | %d dead letters", s.progress.Dead)
	}
	return b.String()
}

// calls are the single writes the service answered, operations 1 to 7.
func (s *show) calls() (n int64) {
	for op := 1; op <= 7; op++ {
		n += s.world.Service.CallCount(op)
	}
	return n
}

// summary tells what happened and, if everything should be there, compares
// every table. An error means that something is not as it was sent.
func (s *show) summary(out io.Writer, compare bool) error {
	var rows, imports int64
	for _, e := range s.world.Service.Executions() {
		imports++
		rows += e.Results.Read
	}
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	p("")
	p("%d events in %.1f s", s.progress.Produced, s.took.Seconds())
	p("  immediate lane   %d calls", s.calls())
	p("  batch lane       %d rows in %d imports", rows, imports)
	if !compare {
		p("  dead letters     %d", s.progress.Dead)
		return nil
	}
	var wrong []string
	verdict := fmt.Sprintf("as expected: %d events are broken on purpose", s.generator.Model.Dead)
	if s.progress.Dead != int64(s.generator.Model.Dead) {
		verdict = fmt.Sprintf("WRONG: %d events are broken on purpose", s.generator.Model.Dead)
		wrong = append(wrong, "dead letters")
	}
	p("  dead letters     %d, %s", s.progress.Dead, verdict)
	for _, c := range s.generator.Model.Compare(s.world.Service) {
		if len(c.Differences) == 0 {
			p("  table %-10s %d rows, each equal to what was sent", c.Table, c.Rows)
			continue
		}
		wrong = append(wrong, "table "+c.Table)
		p("  table %-10s %d rows, %d DIFFERENCES", c.Table, c.Rows, len(c.Differences))
		for _, d := range c.Differences[:min(10, len(c.Differences))] {
			p("    %s", d)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not as it was sent: %s", strings.Join(wrong, ", "))
	}
	p("Every event is confirmed, and every table is equal to what was sent.")
	return nil
}

// screen shows one line that changes, or, where nobody watches, a line now and
// then.
type screen struct {
	to    io.Writer
	live  bool
	width int
	last  time.Time
}

func newScreen(out io.Writer) *screen {
	s := &screen{to: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.live = true
		s.width, _, _ = term.GetSize(int(f.Fd()))
	}
	return s
}

const quietFor = 2 * time.Second

func (s *screen) line(text string) {
	if !s.live {
		if time.Since(s.last) >= quietFor {
			s.last = time.Now()
			_, _ = fmt.Fprintln(s.to, text)
		}
		return
	}
	if s.width > 1 && len(text) >= s.width {
		text = text[:s.width-1]
	}
	_, _ = fmt.Fprintf(s.to, "\r\x1b[K%s", text)
}

func (s *screen) end() {
	if s.live {
		_, _ = fmt.Fprintln(s.to)
	}
}
