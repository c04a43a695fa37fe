// Package online finds out before a sink runs whether it can: it asks brokers, schema
// registry and service what a configuration needs of them, and this machine for its
// directory and port. It joins no group, commits nothing, and writes nothing anywhere.
package online

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
)

// Result is what a check comes to.
type Result string

// The results. A check that warns does not keep a sink from running as it is meant.
const (
	OK         Result = "OK"
	Warn       Result = "WARN"
	Fail       Result = "FAIL"
	NotChecked Result = "NOT CHECKED" // it cannot be asked, or its answer tells nothing
)

// Check is one thing that a sink needs.
type Check struct {
	What   string `json:"what"`
	Result Result `json:"result"`
	Detail string `json:"detail,omitempty"` // what was found, or what is wrong and what to do
}

// String is the check on one line.
func (c Check) String() string {
	text := fmt.Sprintf("%-12s%s", c.Result, c.What)
	if c.Detail != "" {
		text += ": " + c.Detail
	}
	return text
}

// Report is what is known of a configuration before it runs.
type Report struct {
	File          string           `json:"file"`
	Configuration []config.Problem `json:"configuration"`      // mistakes; none: it can work
	Warnings      []config.Problem `json:"warnings,omitempty"` // what can work but is likely not meant
	Online        []Check          `json:"online,omitempty"`
}

// Failed is how many of the online checks failed.
func (r Report) Failed() (n int) {
	for _, c := range r.Online {
		if c.Result == Fail {
			n++
		}
	}
	return n
}

// String is the report for a terminal; mistakes are listed elsewhere.
func (r Report) String() string {
	if len(r.Configuration) > 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: the configuration can work", r.File)
	for _, w := range r.Warnings {
		b.WriteString("\nwarning " + w.In(r.File))
	}
	for _, c := range r.Online {
		b.WriteString("\n" + c.String())
	}
	return b.String()
}

// limit bounds all checks together, which run at the same time.
const limit = 10 * time.Second

// Run makes all checks of a configuration that can work. Of each topic the last records
// are read, so many as records says.
func Run(ctx context.Context, cfg *config.Config, records int64) []Check {
	r, problems := check.CompileUnfinished(cfg.Mappings)
	if len(problems) > 0 {
		return []Check{{"mappings", Fail, problems[0].String()}}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := checker{ctx: ctx, cfg: cfg, router: r, records: records}
	parts := []func() []Check{c.kafka, c.registry, c.service, c.etls, c.machine}
	found := make([][]Check, len(parts))
	var running sync.WaitGroup
	for i, part := range parts {
		running.Go(func() { found[i] = part() })
	}
	running.Wait()
	var all []Check
	for _, checks := range found {
		all = append(all, checks...)
	}
	return all
}

// checker makes the checks of one configuration.
type checker struct {
	ctx     context.Context //nolint:containedctx // of one Run
	cfg     *config.Config
	router  *router.Router
	records int64
}
