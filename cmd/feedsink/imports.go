package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/oneshot"
	"github.com/feedsink/feedsink/connector/words"
)

func newImports() *cobra.Command {
	return newGroup("imports", "Show a running sink's imports, fetch their files, send one now, and let a halted one go on",
		newImportsList(), newImportsShow(), newImportsFiles(), newImportsRoll(), newImportsRelease())
}

func newImportsList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List each mapping's import, open file and slots",
	}
	return askSink(cmd, func(ctx context.Context, c *admin.Client, _ []string) (any, string, error) {
		var list []observe.MappingImports
		err := c.Imports(ctx, &list)
		return list, observe.ImportsText(list, time.Now()), err
	})
}

func newImportsShow() *cobra.Command {
	var mapping string
	var reason bool
	cmd := &cobra.Command{
		Use:   "show --mapping NAME",
		Short: "Show all that is known of one mapping's import",
		Long: "show tells all that is known of one mapping's import. What the service said about a file that it did not load may\n" +
			"quote customers' values: it is shown with --show-reason only, and is in no log.",
		Example: "  feedsink imports show -c feedsink.yaml --mapping customers --show-reason",
	}
	askSink(cmd, func(ctx context.Context, c *admin.Client, _ []string) (any, string, error) {
		var one struct {
			observe.MappingImports
			Reason *observe.LastMessage `json:"reason,omitempty"`
		}
		err := c.Import(ctx, mapping, &one.MappingImports)
		text := one.Text(time.Now())
		if err == nil && reason {
			one.Reason = &observe.LastMessage{}
			err = c.Reason(ctx, mapping, one.Reason)
			text += "\n\n" + one.Reason.Text(time.Now())
		}
		return one, text, err
	})
	mappingFlag(cmd, &mapping)
	cmd.Flags().BoolVar(&reason, "show-reason", false, "show what the service said about an import that went wrong, which may be customers' data")
	return cmd
}

func newImportsRelease() *cobra.Command {
	var mapping string
	cmd := &cobra.Command{
		Use:   "release --mapping NAME",
		Short: "Let a halted mapping go on, once the cause is gone",
		Long: "release lets a mapping go on that was halted because the service refused its file. The file kept in the\n" +
			"spool is sent again, with as many tries as at first; each takes one of the table's imports of the day.\n\n" +
			"It also lets a mapping go on of which nearly all records were refused alike (dlq.flood), in both lanes: the\n" +
			"records that wait are tried again and counted anew; of a file that is loaded, the rows in error become dead letters.\n\n" +
			"A mapping that was halted because output files do not name all rows in error has these files asked for once\n" +
			"more; nothing is sent. Rows in error that they still do not name are given up then: the import is confirmed, and\n" +
			"their number is in a dead letter and in feedsink_import_rows_unmatched_total.\n\n" +
			"A restart alone ends none of these halts. A partition that waits at one record, as there is no dead-letter topic,\n" +
			"is not released: set dlq.topic and run feedsink reload, or fix the cause and restart the sink.",
	}
	askSink(cmd, func(ctx context.Context, c *admin.Client, _ []string) (any, string, error) {
		var released observe.Released
		err := c.Release(ctx, mapping, &released)
		return released, released.Text(), err
	})
	mappingFlag(cmd, &mapping)
	return cmd
}

// mappingFlag adds --mapping, which must be given.
func mappingFlag(cmd *cobra.Command, mapping *string) {
	cmd.Flags().StringVar(mapping, "mapping", "", "name of the mapping")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *mapping == "" {
			return usagef("--mapping: name the mapping; feedsink imports list shows them")
		}
		return nil
	}
}

func newImportsFiles() *cobra.Command {
	var server, mapping, dir string
	cmd := &cobra.Command{
		Use:   "files -c FILE (EXECUTION | --mapping NAME)",
		Short: "Fetch the result and error files of an execution",
		Long: "files streams the output files of an execution to disk. The execution is given by the service's id, which\n" +
			"the sink logs and shows, or is the one that a running sink's mapping has on its way. There are output files\n" +
			"only where the ETL generates them. They hold customers' data.",
		Example: "  feedsink imports files -c feedsink.yaml 8842 --dir /tmp\n" +
			"  feedsink imports files -c feedsink.yaml --mapping customers",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (mapping == "") {
				return usagef("name the execution, or --mapping for the one its sink has on its way")
			}
			client, file, err := serviceClient(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			var execution string
			if len(args) > 0 {
				execution = args[0]
			} else if execution, err = executionOf(cmd.Context(), file, server, mapping); err != nil {
				return err
			}
			path, out, err := oneshot.SaveOutput(cmd.Context(), client, execution, dir)
			if err != nil {
				return withReason(err)
			}
			saved := savedOutput{Execution: execution, File: path, Bytes: out.Bytes, ContentType: out.ContentType}
			return printResult(cmd, saved, saved.String())
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	cmd.Flags().StringVar(&mapping, "mapping", "", "the import that this mapping has on its way, in the running sink")
	cmd.Flags().StringVar(&server, "server", "", "that sink's admin server (default: admin.listen of the configuration, on this machine)")
	cmd.Flags().StringVar(&dir, "dir", ".", "where to put the file")
	return cmd
}

// executionOf asks the running sink which execution a mapping waits for.
func executionOf(ctx context.Context, file config.File, server, mapping string) (string, error) {
	cfg, err := file.Config(os.LookupEnv)
	if err != nil {
		return "", asUsage(err)
	}
	server, client, err := sinkOf(server, cfg.Admin, "")
	if err != nil {
		return "", err
	}
	var one observe.MappingImports
	if err := client.Import(ctx, mapping, &one); err != nil {
		return "", asked(err, server)
	}
	if one.Import == nil || one.Import.Execution == "" {
		return "", fmt.Errorf("mapping %s: no execution is known, it has no import on its way; the sink's log names those that ended", mapping)
	}
	return one.Import.Execution, nil
}

type savedOutput struct {
	Execution   string `json:"execution"`
	File        string `json:"file,omitempty"` // none: there are no output files
	Bytes       int64  `json:"bytes"`
	ContentType string `json:"contentType,omitempty"`
}

// String is the answer for a terminal.
func (s savedOutput) String() string {
	if s.File == "" {
		return fmt.Sprintf("execution %s has no output files; its ETL has to generate them (generateResultFiles, generateErrorFiles)", s.Execution)
	}
	return fmt.Sprintf("%s (%s)", s.File, words.Counted(s.Bytes, "byte"))
}
