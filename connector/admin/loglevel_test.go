package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// oneLevel is a log that knows two levels.
type oneLevel struct{ level string }

func (l *oneLevel) Level() string { return l.level }

func (l *oneLevel) SetLevel(word string) error {
	if word != "info" && word != "debug" {
		return errors.New("level: must be info or debug")
	}
	l.level = word
	return nil
}

func TestLogLevelIsShownAndChanged(t *testing.T) {
	var log strings.Builder
	levels, mux := &oneLevel{"info"}, http.NewServeMux()
	LogLevel(levels, slog.New(slog.NewTextHandler(&log, nil)))(mux)
	server := httptest.NewServer(asIs(mux))
	defer server.Close()
	c := client(t, server.URL)
	var got LogLevelAnswer
	if err := c.LogLevel(t.Context(), &got); err != nil || got.Level != "info" {
		t.Errorf("show: got %v, %v, want info", got, err)
	}
	if err := c.SetLogLevel(t.Context(), "debug", &got); err != nil || got.Level != "debug" || levels.level != "debug" {
		t.Errorf("change: got %v, %v, level %s, want debug", got, err, levels.level)
	}
	if !strings.Contains(log.String(), "from=info to=debug") {
		t.Errorf("the log says %q, want that the level was changed", log.String())
	}
	refusal, ok := errors.AsType[*Refusal](c.SetLogLevel(t.Context(), "loud", &got))
	if !ok || refusal.Status != http.StatusBadRequest || refusal.Error() != "log level: must be info or debug" {
		t.Errorf("an unknown word: got %+v, want 400 and the words there are", refusal)
	}
	for _, headers := range [][]string{nil, {"X-Feedsink", "imports"}} {
		if status, _ := request(t, http.MethodPost, server.URL+"/log-level/info", headers...); status != http.StatusForbidden || levels.level != "debug" {
			t.Errorf("with headers %v: got %d and level %s, want 403 and no change", headers, status, levels.level)
		}
	}
}
