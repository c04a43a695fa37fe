package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go release",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionInfo{Version: version, Commit: revision(), Go: runtime.Version()}
			return printResult(cmd.OutOrStdout(), output, v, func() string {
				return fmt.Sprintf("feedsink %s, commit %s, %s", v.Version, v.Commit, v.Go)
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// revision is the commit the linker was told, or the one the Go command saw.
func revision() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
