//go:build !image

package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
)

// start runs a sink in this process.
func (w *world) start(yaml string) *running {
	w.t.Helper()
	return w.begin(w.config(yaml))
}

// config reads a configuration, with this test's way to the brokers.
func (w *world) config(yaml string) *config.Config {
	w.t.Helper()
	cfg, err := config.Parse("feedsink.yaml", []byte(w.through.in(yaml)), w.env)
	if err != nil {
		w.t.Fatal(err)
	}
	return cfg
}

// begin is start with a configuration that was read, and perhaps changed, as options are.
func (w *world) begin(cfg *config.Config, changes ...func(*connector.Options)) *running {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelInfo}))
	opts := connector.Options{Log: log, Version: "test", Lanes: w.lanes, CommitEvery: 50 * time.Millisecond, MetadataMaxAge: 2 * time.Second, FirstPoll: w.firstPoll, ApartAfter: time.Second}
	for _, change := range changes {
		change(&opts)
	}
	sink, err := connector.New(cfg, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sink.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the sink ended with: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return &running{sink, stop}
}

// program builds feedsink as a user runs it.
func program(dir string) (path string, err error) {
	path = filepath.Join(dir, "feedsink")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/feedsink/feedsink/cmd/feedsink").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
}

// shared lets the program use a directory or file: it runs as this user.
func shared(_ *testing.T, path string) string { return path }

func (p *process) signal(s os.Signal) error { return p.cmd.Process.Signal(s) }
