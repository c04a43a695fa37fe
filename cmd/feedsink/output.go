package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text or json")
}

// printResult prints a result as text or as JSON.
func printResult(to io.Writer, output string, result any, text func() string) error {
	switch output {
	case "text":
		_, err := fmt.Fprintln(to, text())
		return err
	case "json":
		enc := json.NewEncoder(to)
		enc.SetIndent("", "  ")
		return enc.Encode(result)
	}
	return &usageError{fmt.Errorf("-o: must be text or json, is %q", output)}
}
