package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/feedsink/feedsink/connector/dev"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// runService plays the service alone until ctx ends. Its reports are lines of
// its log.
func runService(ctx context.Context, out, log io.Writer, listen string) (err error) {
	dir, err := os.MkdirTemp("", "feedsink-dev-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := dev.StartService(dir, listen, slog.New(slog.NewTextHandler(log, nil))) //nolint:contextcheck // it lives until Close
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: choose another address with --listen", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := fmt.Fprintln(out, serviceText(s)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// serviceText says all that a client needs to know.
func serviceText(s *dev.Service) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, text string) { _, _ = fmt.Fprintf(w, "%s\t%s\n", name, text) }
	line("service", s.URL+"  (base and token address)")
	line("page", s.URL+"/_sandbox/")
	line("entity", s.Entity)
	line("API key", s.APIKey)
	name := "tables"
	for _, t := range s.Tables {
		line(name, tableText(t))
		name = ""
	}
	name = "ETLs"
	for _, e := range s.ETLs {
		line(name, etlText(e))
		name = ""
	}
	line("remote location", "crm  "+s.Folder)
	line("transfer box", s.Entity+"  "+s.Dropped)
	_ = w.Flush() // a strings.Builder takes everything
	return b.String() + "\nCtrl-C ends it; nothing is kept."
}

func tableText(t sandbox.Table) string {
	kind := "profiles by " + strings.Join(t.Keys, ", ")
	if t.Custom {
		kind = "records by businessKey"
	}
	if t.Link.Table != "" {
		kind += ", deleted with their " + t.Link.Table
	}
	return t.Name + "  " + kind
}

func etlText(e sandbox.ETL) string {
	var loads []string
	for _, l := range e.Loads {
		loads = append(loads, l.Table+" "+string(l.Mode))
	}
	text := e.ID + "  " + strings.Join(loads, " and ")
	if len(loads) > 1 {
		text += ", from one ZIP"
	}
	if e.Fetch.Remote != "" {
		text += ", from a file pushed or at the remote location " + e.Fetch.Remote
	}
	return text
}
