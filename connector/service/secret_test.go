package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretIsNeverPrinted(t *testing.T) {
	s := NewSecret("hunter2")
	type config struct {
		Key    Secret
		hidden Secret
	}
	c := config{s, s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		for _, v := range []any{s, &s, c, &c, []Secret{s}} {
			_, _ = fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	text, err := json.Marshal(map[string]any{"key": s, "config": c})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "key", s, "config", c)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "key", s, "config", c)
	for _, form := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), fmt.Sprintf("%X", "hunter2")} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q appears in\n%s", form, out.String())
		}
	}
	if got := fmt.Sprintf("%d %v %q", s, s, s); got != "[redacted] [redacted] [redacted]" {
		t.Errorf("by itself: got %s, want [redacted] each time", got)
	}
	if got, err := json.Marshal(s); err != nil || string(got) != `"[redacted]"` {
		t.Errorf("JSON: got %s, %v", got, err)
	}
	if s.Reveal() != "hunter2" || (Secret{}).Reveal() != "" {
		t.Errorf("Reveal: got %q and %q", s.Reveal(), Secret{}.Reveal())
	}
}

func TestSecretLosesTheLineBreakOfItsFile(t *testing.T) {
	if got := NewSecret(" key\r\n").Reveal(); got != "key" {
		t.Errorf("got %q, want %q", got, "key")
	}
}
