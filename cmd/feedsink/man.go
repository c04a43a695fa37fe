//go:build man

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manualPages are for who packages feedsink: its users have --help. What writes them would
// make the binary larger by 600 kB, so that it is built for make man alone.
func manualPages() []*cobra.Command {
	return []*cobra.Command{{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: "man writes a manual page of each command into a directory, which it makes if it is not there: feedsink.1,\n" +
			"feedsink-run.1 and so on. SOURCE_DATE_EPOCH, if it is set, is the date in them.",
		Example: "  feedsink man /usr/local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are for all to read
				return fmt.Errorf("manual pages: %w", err)
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "feedsink " + version, Manual: "feedsink"}, args[0])
		},
	}}
}
