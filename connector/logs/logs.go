package logs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// Config says how much is logged, and in which form.
type Config struct {
	Level  string // debug, info, warn or error; empty: info
	Format string // text or json; empty: text
	// Fold is for how long a warning or error that is repeated is held back; 0: one
	// minute.
	Fold time.Duration
}

// Log is a logger whose level may change. It must be closed.
type Log struct {
	*slog.Logger
	level  slog.LevelVar
	folder *folder
}

// New returns a log that writes lines to w, one Write for each. An error names the
// word that is none of Config's.
func New(w io.Writer, cfg Config) (*Log, error) {
	l := &Log{}
	if cfg.Level != "" {
		if err := l.SetLevel(cfg.Level); err != nil {
			return nil, err
		}
	}
	var lines slog.Handler
	opts := &slog.HandlerOptions{Level: &l.level}
	switch cfg.Format {
	case "text", "":
		lines = slog.NewTextHandler(w, opts)
	case "json":
		lines = slog.NewJSONHandler(w, opts)
	default:
		return nil, fmt.Errorf("format: must be text or json, is %q", cfg.Format)
	}
	l.folder = &folder{window: cmp.Or(cfg.Fold, time.Minute), kinds: map[string]*kind{}}
	l.Logger = slog.New(&handler{next: lines, folder: l.folder})
	return l, nil
}

// Level is the level as it is now: debug, info, warn or error.
func (l *Log) Level() string { return strings.ToLower(l.level.Level().String()) }

// SetLevel changes the level from the next line on. An error says which words
// there are.
func (l *Log) SetLevel(word string) error {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(word, level.String()) {
			l.level.Set(level)
			return nil
		}
	}
	return fmt.Errorf("level: must be debug, info, warn or error, is %q", word)
}

// Close writes what is held back. Lines that come later are
// written as they come.
func (l *Log) Close() { l.folder.close() }

// Flush writes what is held back now, before a line that is to be the last.
func (h *handler) Flush() {
	h.folder.mu.Lock()
	defer h.folder.mu.Unlock()
	h.folder.flush()
}

// Unfolded is where lines are written as they come, however often they are repeated: for
// answers to what somebody asked for.
func (h *handler) Unfolded() slog.Handler { return h.next }

// handler folds the warnings and errors that pass through it.
type handler struct {
	next   slog.Handler
	folder *folder
	within string // what is the same in all of its lines: attributes and groups
}

// Enabled reports whether there will be a line.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle writes the line or holds it back. What is below a warning tells of things
// that happened, each of which counts.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && h.folder.holds(h.next, h.within, r) { //nolint:contextcheck // a line that is held back outlives its call
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs returns a handler that adds the attributes to each line.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	within := []byte(h.within)
	for _, a := range attrs {
		within = appendKind(within, a)
	}
	return &handler{next: h.next.WithAttrs(attrs), folder: h.folder, within: string(within)}
}

// WithGroup returns a handler that puts the attributes of each line into a group.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{next: h.next.WithGroup(name), folder: h.folder, within: h.within + name + "\x00{"}
}
