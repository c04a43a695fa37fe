//go:build man

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if _, code, err := command(t, "man", dir); code != exitFine {
		t.Fatalf("got code %d, %v, want %d", code, err, exitFine)
	}
	var each func(cmd *cobra.Command)
	pages := 0
	each = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		pages++
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), cmd.Short) {
			t.Errorf("%s: got %v, want a page that says %q", name, err, cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(newRoot())
	if pages < 30 {
		t.Errorf("got %d commands, want all of them", pages)
	}
	if _, code, _ := command(t, "man"); code != exitUsage {
		t.Errorf("without a directory: got code %d, want %d", code, exitUsage)
	}
}
