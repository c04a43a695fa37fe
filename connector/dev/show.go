package dev

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/words"
)

// Show produces sample events and tells how a sink gets on with them.
type Show struct {
	World     *Playground
	Generator *Generator
	Status    func() any // of the sink
	Tell      func(line string)
	End       func() // after the last line

	started  time.Time
	took     time.Duration
	progress Progress
}

const (
	chunk      = 500 // events produced at once
	trickle    = 20  // events per step when there is no end
	step       = 250 * time.Millisecond
	stuckAfter = 2 * time.Minute // without any progress
)

// Play produces events, all at once if their number is known, and returns when
// all are confirmed, or at the interrupt if there is no end.
func (s *Show) Play(ctx context.Context, events int) error {
	s.started = time.Now()
	tick := time.NewTicker(step)
	defer tick.Stop()
	moved, before := time.Now(), int64(-1)
	for made := 0; ; {
		n := trickle
		if events > 0 {
			n = min(chunk, events-made)
		}
		if n > 0 {
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
			s.End()
			if events > 0 {
				return fmt.Errorf("%w before every event was confirmed", context.Canceled)
			}
			return nil
		}
		var err error
		if s.progress, err = s.World.Progress(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		s.took = time.Since(s.started)
		s.Tell(s.line())
		if events > 0 && made == events && s.progress.Done() {
			s.End()
			return nil
		}
		if s.progress.Confirmed != before {
			moved, before = time.Now(), s.progress.Confirmed
		}
		if events > 0 && time.Since(moved) > stuckAfter {
			s.End()
			return fmt.Errorf("nothing was confirmed for %v, and %d of %s before", stuckAfter, s.progress.Confirmed, words.Counted(s.progress.Produced, "event"))
		}
	}
}

func (s *Show) produce(ctx context.Context, n int) error {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = s.Generator.Next()
	}
	return s.World.Produce(ctx, records...)
}

func (s *Show) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.1fs  %d of %s confirmed", s.took.Seconds(), s.progress.Confirmed, words.Counted(s.progress.Produced, "event"))
	st, ok := s.Status().(observe.Status)
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
			fmt.Fprintf(&b, " | %s: %s in the open file", m.Name, words.Counted(m.Batch.Rows, "row"))
			if m.Batch.Import != nil {
				fmt.Fprintf(&b, ", import %s", m.Batch.Import.Step)
			}
		}
	}
	if s.progress.Dead > 0 {
		fmt.Fprintf(&b, " | %s", words.Counted(s.progress.Dead, "dead letter"))
	}
	return b.String()
}

// calls are the single writes the service answered, operations 1 to 7.
func (s *Show) calls() (n int64) {
	for op := 1; op <= 7; op++ {
		n += s.World.Service.CallCount(op)
	}
	return n
}

// Summary tells what happened and, if everything should be there, compares
// every table. An error means that something is not as it was sent.
func (s *Show) Summary(out io.Writer, compare bool) error {
	var rows, imports int64
	for _, e := range s.World.Service.Executions() {
		imports++
		rows += e.Results.Read
	}
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	p("")
	p("%s in %.1f s", words.Counted(s.progress.Produced, "event"), s.took.Seconds())
	p("  immediate lane   %s", words.Counted(s.calls(), "call"))
	p("  batch lane       %s in %s", words.Counted(rows, "row"), words.Counted(imports, "import"))
	if !compare {
		p("  dead letters     %d", s.progress.Dead)
		return nil
	}
	var wrong []string
	verdict := fmt.Sprintf("as expected: %s broken on purpose", words.Counted(s.Generator.Model.Dead, "event is", "events are"))
	if s.progress.Dead != int64(s.Generator.Model.Dead) {
		verdict = fmt.Sprintf("WRONG: %s broken on purpose", words.Counted(s.Generator.Model.Dead, "event is", "events are"))
		wrong = append(wrong, "dead letters")
	}
	p("  dead letters     %d, %s", s.progress.Dead, verdict)
	for _, c := range s.Generator.Model.Compare(s.World.Service) {
		if len(c.Differences) == 0 {
			p("  table %-10s %s, each equal to what was sent", c.Table, words.Counted(c.Rows, "row"))
			continue
		}
		wrong = append(wrong, "table "+c.Table)
		p("  table %-10s %s, %s", c.Table, words.Counted(c.Rows, "row"), words.Counted(len(c.Differences), "DIFFERENCE", "DIFFERENCES"))
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
