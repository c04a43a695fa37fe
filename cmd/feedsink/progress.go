package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/words"
)

// watched reports whether a person sees how far the command is: its errors go to a
// terminal, and its result is not to be JSON.
func watched(cmd *cobra.Command) bool {
	f, ok := cmd.ErrOrStderr().(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && !wantsJSON(cmd)
}

// bar is a progress bar. A terminal that has gone takes nothing from the command.
type bar struct {
	to    io.Writer
	shown *progressbar.ProgressBar // nil: none is
}

// begin shows the bar; -1: of something that has no measure.
func (b *bar) begin(of int64, options ...progressbar.Option) {
	b.shown = progressbar.NewOptions64(of, append(options, progressbar.OptionSetWriter(b.to), progressbar.OptionClearOnFinish())...)
}

// at shows how much is done, and begins the bar with the first of it.
func (b *bar) at(done, of int64, options ...progressbar.Option) {
	if b.shown == nil {
		b.begin(max(of, 1), append(options, progressbar.OptionThrottle(100*time.Millisecond))...)
	}
	_ = b.shown.Set64(done)
}

// clear makes room for a line.
func (b *bar) clear() {
	if b.shown != nil {
		_ = b.shown.Clear()
	}
}

// end takes the bar off the terminal.
func (b *bar) end() {
	if b.shown != nil {
		_ = b.shown.Finish()
		b.shown = nil
	}
}

// reading shows how much of what a command reads it has read. Where it is not watched,
// it shows nothing. It is used by one goroutine at a time.
type reading struct {
	bar             // to is nil: nothing is shown
	after time.Time // what is over before needs no bar
}

func newReading(cmd *cobra.Command) *reading {
	if !watched(cmd) {
		return &reading{}
	}
	return &reading{bar{to: cmd.ErrOrStderr()}, time.Now().Add(time.Second)}
}

// at is told of each record.
func (r *reading) at(read, of int64) {
	if r.to == nil || r.shown == nil && time.Now().Before(r.after) {
		return
	}
	r.bar.at(read, of, progressbar.OptionSetDescription("reading"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("records"))
}

// above is a writer for what the command prints while it reads: it takes the bar off the
// terminal first.
func (r *reading) above(to io.Writer) io.Writer { return cleared{r, to} }

type cleared struct {
	reading *reading
	to      io.Writer
}

func (c cleared) Write(b []byte) (int, error) {
	c.reading.clear()
	return c.to.Write(b)
}

// progress shows an import by hand: a bar on a terminal, elsewhere a line for each
// thing that happened, and with -o json nothing but trouble. It is used by one goroutine at a time.
type progress struct {
	bar
	live    bool // a bar
	silent  bool
	size    int64
	started time.Time
}

func newProgress(cmd *cobra.Command) *progress {
	return &progress{bar: bar{to: cmd.ErrOrStderr()}, live: watched(cmd), silent: wantsJSON(cmd), started: time.Now()}
}

// Sending is told how much of the file has left.
func (p *progress) Sending(sent, of int64) {
	p.size = of
	if p.live {
		p.at(sent, of, progressbar.OptionSetDescription("sending"), progressbar.OptionShowBytes(true))
	}
}

// Waiting is told that the service has the file.
func (p *progress) Waiting(execution string) {
	p.end()
	line := "execution " + execution + " is launched"
	if p.size > 0 {
		line = fmt.Sprintf("%s, %s sent", line, words.Counted(p.size, "byte"))
	}
	if !p.silent {
		p.say(line)
	}
	if p.live {
		p.begin(-1, progressbar.OptionSetDescription("importing"), progressbar.OptionSetElapsedTime(true))
	}
}

// Asked is told what a poll found that did not end the import.
func (p *progress) Asked(status string, err error) {
	switch {
	case err != nil:
		p.say(fmt.Sprintf("the service cannot be asked, trying again: %v", err))
	case !p.live && !p.silent:
		p.say(fmt.Sprintf("%s for %s", status, time.Since(p.started).Truncate(time.Second)))
	}
}

func (p *progress) say(line string) {
	p.clear()
	_, _ = fmt.Fprintln(p.to, line)
}

// screen shows one line that changes, or, where that is no terminal, a line now and
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

// backfillProgress shows how far a backfill is: a bar on a terminal, elsewhere a line now
// and then.
type backfillProgress struct {
	screen *screen
	bar
}

func newBackfillProgress(to io.Writer) *backfillProgress {
	p := &backfillProgress{newScreen(to), bar{to: to}}
	p.screen.last = time.Now() // what is over at once needs no progress
	return p
}

// barSteps are how fine the bar is.
const barSteps = 10_000

func (p *backfillProgress) tell(r replay.BackfillReport) {
	p.show(r, r.ProgressText())
}

func (p *backfillProgress) show(r replay.BackfillReport, text string) {
	if r.Waiting != "" {
		text = r.Waiting
	}
	if !p.screen.live {
		p.screen.line(fmt.Sprintf("%.1f %%: %s", 100*r.Done, text))
		return
	}
	if p.shown == nil {
		p.begin(barSteps, progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond))
	}
	p.shown.Describe(text)
	p.at(int64(r.Done*barSteps), barSteps)
}

// verified shows how far a verification is, or its repair.
func (p *backfillProgress) verified(r replay.BackfillReport) {
	if !r.DryRun {
		p.tell(r)
		return
	}
	p.show(r, fmt.Sprintf("comparing, %d left out", r.Newer))
}
