//go:build !man

package main

import "github.com/spf13/cobra"

func manualPages() []*cobra.Command { return nil }
