package main

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/router"
)

// Values of flags and arguments that are fixed.
var (
	logLevels  = []string{"debug", "info", "warn", "error"}
	flagValues = map[string][]string{
		"lane":       {"all", "immediate", "batch"},
		"output":     {"text", "json"},
		"log-level":  logLevels,
		"log-format": {"text", "json"},
		"op":         {"upsert", "patch", "merge", "create", "delete"},
		"sasl":       {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"},
		"code":       reasonCodes,
	}
)

// complete has the shell complete the values of flags and arguments, here and in all
// commands below. Where it knows none it offers none, and no files unless one is wanted.
func complete(cmd *cobra.Command) {
	offer := func(flag string, of cobra.CompletionFunc) {
		f := cmd.Flags().Lookup(flag)
		if f == nil {
			return
		}
		if f.Value.Type() == "stringSlice" {
			of = eachOfSeveral(of)
		}
		_ = cmd.RegisterFlagCompletionFunc(flag, of) // an error says that there is one already
	}
	for flag, values := range flagValues {
		offer(flag, noFiles(values...))
	}
	offer("by", noFiles(deadletter.CountNames()...))
	if f := cmd.Flags().Lookup("reason"); f != nil && f.Value.Type() == "stringSlice" { // a text elsewhere
		offer("reason", noFiles(reasonCodes...))
	}
	offer("mapping", fromConfig(func(m *router.Mapping) []string { return []string{m.Name} }))
	offer("table", fromConfig(tablesFor(cmd.Parent())))
	if cmd.Flags().Lookup("config") != nil { // else it is of a topic that no configuration knows yet
		offer("topic", fromConfig(func(m *router.Mapping) []string { return m.Topics }))
	}
	offer("etl", fromConfig(etls))
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // an error says that there is no such flag, here and below
	_ = cmd.MarkFlagDirname("dir")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, files := f.Annotations[cobra.BashCompFilenameExt]; !files && f.Annotations[cobra.BashCompSubdirsInDir] == nil && !namesFile(f) {
			offer(f.Name, cobra.NoFileCompletions)
		}
	})
	if wanted := fileArguments[cmd.Name()]; wanted == nil && cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	} else if wanted != nil {
		cmd.ValidArgsFunction = wanted
	}
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// fileArguments are the commands whose argument is a file or a directory.
var fileArguments = map[string]cobra.CompletionFunc{
	"import": cobra.FixedCompletions([]string{"csv", "gz", "zip"}, cobra.ShellCompDirectiveFilterFileExt),
	"test":   cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt),
	"man":    cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
}

// namesFile reports whether the flag's value is a file.
func namesFile(f *pflag.Flag) bool {
	return f.Value.Type() == "string" && (f.Name == "out" || f.Name == "file" || strings.HasSuffix(f.Name, "-file"))
}

func noFiles(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// tablesFor are the tables that a group's commands are about: profile tables, custom
// tables, or both.
func tablesFor(group *cobra.Command) func(*router.Mapping) []string {
	return func(m *router.Mapping) []string {
		switch {
		case group != nil && group.Name() == "profile":
			return []string{m.ProfileTable}
		case group != nil && group.Name() == "record":
			return []string{m.CustomTable}
		}
		return []string{m.ProfileTable, m.CustomTable}
	}
}

func etls(m *router.Mapping) (ids []string) {
	for _, im := range []*router.Import{m.Imports.Upsert, m.Imports.Patch, m.Imports.Create, m.Imports.Delete} {
		if im != nil && im.ETL != config.NoETL {
			ids = append(ids, im.ETL)
		}
	}
	return ids
}

// fromConfig offers names of the configuration that --config names; none where it cannot
// be read.
func fromConfig(of func(*router.Mapping) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		file := "feedsink.yaml"
		if f := cmd.Flag("config"); f != nil {
			file = cmp.Or(f.Value.String(), file)
		}
		read, err := config.Read(file)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cfg, err := read.ForSamples(os.LookupEnv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for i := range cfg.Mappings {
			for _, name := range of(&cfg.Mappings[i]) {
				if name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// eachOfSeveral completes the last of several values with commas between them.
func eachOfSeveral(of cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndex(begun, ",")+1]
		values, directive := of(cmd, args, begun)
		all := make([]string, len(values))
		for i, v := range values {
			all[i] = before + v
		}
		return all, directive
	}
}
