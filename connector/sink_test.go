package connector

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

func TestSinkGivesBackWhatItOpenedWhenItCannotBeMade(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := t.TempDir()
	if _, err := assemble(t, Options{}, "DIR="+dir, "ADMIN="+taken.Addr().String()); err == nil || !strings.HasPrefix(err.Error(), "admin.listen: ") {
		t.Fatalf("a port in use: got %v, want an error that names the key", err)
	}
	// The spool has one user at a time.
	sink, err := assemble(t, Options{}, "DIR="+dir)
	if err != nil {
		t.Fatalf("the spool of a sink that was not made: got %v, want it free", err)
	}
	sink.close()
}

func TestLanesThatNoMappingUsesAreAnError(t *testing.T) {
	sink, err := assemble(t, Options{Lanes: []schemas.Lane{schemas.Lane(9)}})
	if err == nil {
		sink.close()
		t.Fatal("got a sink without a lane")
	}
	if !strings.Contains(err.Error(), "no mapping uses the lanes") {
		t.Errorf("got %v, want that no mapping uses them", err)
	}
}

func TestRunEndsWhenAPartOfTheSinkFails(t *testing.T) {
	sink := assembled(t, Options{})
	sink.admin.Close()
	err := sink.Run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "admin server: ") {
		t.Errorf("got %v, want the admin server's failure", err)
	}
	if got := len(sink.closers) + len(sink.now().closers); got != 0 {
		t.Errorf("left open: got %d, want nothing", got)
	}
}

func TestEachFailedTokenRequestIsOneLineThatSaysWhenTheNextOneIs(t *testing.T) {
	api, _ := startService(t)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	var lines strings.Builder
	sink := assembled(t, Options{Log: slog.New(slog.NewTextHandler(&lines, nil))}, "SERVICE="+server.URL)
	defer sink.close()
	lines.Reset()
	api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 14}, Count: 1, Answer: sandbox.StatusAfter(503, time.Second)})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sink.now().token.Run(ctx)
	}()
	until(t, "there is a token", sink.now().client.TokenOK)
	end()
	<-ended
	if got := api.CallCount(14); got != 2 {
		t.Fatalf("got %d requests, want a token after 2", got)
	}
	if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "tries=1 wait=1.") {
		t.Errorf("got %s, want one line, with tries=1 and a wait of a second or more", got)
	}
	if got := lines.String(); !strings.Contains(got, "; it has too much to do: try again later") {
		t.Errorf("got %s, want what to do", got)
	}
}
