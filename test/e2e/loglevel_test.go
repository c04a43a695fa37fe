package e2e_test

import (
	"strings"
	"testing"
)

func TestLogLevelOfARunningSinkIsChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.run(head + deadLetters + mappings) // which says --log-level debug
	address := "http://" + sink.admin(w)
	for _, step := range []struct {
		args   string
		output string
		code   int
	}{
		{"", "debug\n", 0},
		{"warn", "warn\n", 0},
		{"", "warn\n", 0},
		{"loud", "log-level: must be debug, info, warn or error, is \"loud\"\n", 2},
		{"debug -o json", "{\n  \"level\": \"debug\"\n}\n", 0},
	} {
		args := append([]string{"log-level", "--server", address}, strings.Fields(step.args)...)
		if out, code := execute(t, args...); out != step.output || code != step.code {
			t.Errorf("log-level %s: got %q and exit code %d, want %q and %d", step.args, out, code, step.output, step.code)
		}
	}
	sink.terminate(t)
	if got := sink.out.String(); !strings.Contains(got, "from=debug to=warn") || !strings.Contains(got, "from=warn to=debug") {
		t.Errorf("the log does not say that its level was changed")
	}
}

func TestOneTroubleIsOneLineUntilAMinuteHasPassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.RevokeKey(apiKey)
	sink := w.run(head + deadLetters + mappings)
	const trouble = `msg="no new token; trying again"`
	w.until("the token was asked for often, and the log says so", func() bool {
		return w.service.CallCount(14) > 5 && strings.Contains(sink.out.String(), trouble)
	})
	if got := strings.Count(sink.out.String(), trouble); got != 1 {
		t.Errorf("while it goes on: got %d lines, want 1", got)
	}
	w.service.AllowKey(apiKey)
	address := sink.admin(w)
	w.until("the sink is ready", func() bool { return get(t, address, "/readyz") == "ok\n" })
	sink.terminate(t)
	if got := sink.out.String(); strings.Count(got, trouble) != 2 || !strings.Contains(got, "suppressed=") {
		t.Errorf("at the end: got %d lines, want a second one that says how many were left out", strings.Count(got, trouble))
	}
}
