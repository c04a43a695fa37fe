//go:build page

package page

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev"
	"github.com/feedsink/feedsink/schemas"
)

// world is a sink in a playground, with its page.
type world struct {
	*dev.Playground
	generator *dev.Generator
	page      string // its address
	spool     string // its folder
	sink      *connector.Sink
	stop      func() // ends the sink
}

// newWorld runs a sink until the test ends; change, if not nil, makes its
// configuration another one. Without lanes it runs both.
func newWorld(t *testing.T, change func(yaml string) string, lanes ...schemas.Lane) *world {
	t.Helper()
	play, err := dev.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(play.Close)
	path, env, err := play.Configuration()
	if err != nil {
		t.Fatal(err)
	}
	yaml, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(yaml)
	if change != nil {
		text = change(text)
	}
	cfg, err := config.Parse(path, []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := connector.New(cfg, connector.Options{
		Log: slog.New(slog.DiscardHandler), Version: "v1.2.3", Lanes: lanes, CommitEvery: 100 * time.Millisecond, FirstPoll: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := sink.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	spool, _ := env("SPOOL")
	w := &world{Playground: play, generator: dev.NewGenerator(1), page: "http://" + sink.AdminAddress() + "/", spool: spool, sink: sink}
	w.stop = func() {
		stop()
		<-ended
	}
	t.Cleanup(w.stop)
	return w
}

// events produces some of the playground's.
func (w *world) events(t *testing.T, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = w.generator.Next()
	}
	if err := w.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
}
