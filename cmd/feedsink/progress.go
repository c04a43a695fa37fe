package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows an import by hand: a bar on a terminal, elsewhere a line for each
// thing that happened. It is used by one goroutine at a time.
type progress struct {
	to      io.Writer
	live    bool
	bar     *progressbar.ProgressBar // nil: none is shown
	size    int64
	started time.Time
}

func newProgress(to io.Writer) *progress {
	f, ok := to.(*os.File)
	return &progress{to: to, live: ok && term.IsTerminal(int(f.Fd())), started: time.Now()}
}

// Sending is told how much of the file has left.
func (p *progress) Sending(sent, of int64) {
	p.size = of
	if !p.live {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(max(of, 1), progressbar.OptionSetWriter(p.to), progressbar.OptionSetDescription("sending"),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set64(sent) // a terminal that has gone takes nothing from the import
}

// Waiting is told that the service has the file.
func (p *progress) Waiting(execution string) {
	p.end()
	line := "execution " + execution + " is launched"
	if p.size > 0 {
		line = fmt.Sprintf("%s, %d bytes sent", line, p.size)
	}
	p.say(line)
	if p.live {
		p.bar = progressbar.NewOptions(-1, progressbar.OptionSetWriter(p.to), progressbar.OptionSetDescription("importing"),
			progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish())
	}
}

// Asked is told what a poll found that did not end the import.
func (p *progress) Asked(status string, err error) {
	switch {
	case err != nil:
		p.say(fmt.Sprintf("the service cannot be asked, trying again: %v", err))
	case !p.live:
		p.say(fmt.Sprintf("%s for %s", status, time.Since(p.started).Truncate(time.Second)))
	}
}

func (p *progress) say(line string) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	_, _ = fmt.Fprintln(p.to, line)
}

// end takes what is shown off the terminal.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
