package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/service"
)

func newImportsFiles() *cobra.Command {
	var file, server, mapping, dir, output string
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
				return &usageError{errors.New("name the execution, or --mapping for the one its sink has on its way")}
			}
			if err := printResult(io.Discard, output, nil, func() string { return "" }); err != nil {
				return err
			}
			client, err := serviceClient(file)
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
			saved, err := saveOutput(cmd.Context(), client, execution, dir)
			if err != nil {
				return withReason(err)
			}
			return printResult(cmd.OutOrStdout(), output, saved, saved.String)
		},
	}
	configFlag(cmd, &file)
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&mapping, "mapping", "", "the import that this mapping has on its way, in the running sink")
	cmd.Flags().StringVar(&server, "server", "", "that sink's admin server (default: admin.listen of the configuration, on this machine)")
	cmd.Flags().StringVar(&dir, "dir", ".", "where to put the file")
	return cmd
}

// executionOf asks the running sink which execution a mapping waits for.
func executionOf(ctx context.Context, file, server, mapping string) (string, error) {
	cfg, err := loadConfig(file)
	if err != nil {
		return "", err
	}
	if server == "" {
		if server, err = listenedOn(cfg.Admin); err != nil {
			return "", &usageError{err}
		}
	}
	known, err := credentials(cfg.Admin.TokenFile, cfg.Admin.TLS.CertFile)
	if err != nil {
		return "", &usageError{err}
	}
	client, err := admin.NewClient(server, known)
	if err != nil {
		return "", &usageError{fmt.Errorf("--server: %w", err)}
	}
	var one connector.MappingImports
	if err := client.Import(ctx, mapping, &one); err != nil {
		return "", explained(err, server)
	}
	if one.Import == nil || one.Import.Execution == "" {
		return "", fmt.Errorf("mapping %s: no execution is known, it has no import on its way; the sink's log names those that ended", mapping)
	}
	return one.Import.Execution, nil
}

// savedOutput is where an execution's output files are.
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
	return fmt.Sprintf("%s (%d bytes)", s.File, s.Bytes)
}

// unsafeName is what an id must not bring into a file's name.
var unsafeName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// saveOutput streams the output files into a file named after the execution, with
// the ending that its content tells.
func saveOutput(ctx context.Context, client *service.Client, execution, dir string) (savedOutput, error) {
	name := filepath.Join(dir, "execution-"+unsafeName.ReplaceAllString(execution, "_"))
	out, err := client.SaveOutputFiles(ctx, execution, name, 0)
	saved := savedOutput{Execution: execution, Bytes: out.Bytes, ContentType: out.ContentType}
	if err != nil || out.Bytes == 0 {
		return saved, err
	}
	switch out.Compression {
	case service.Gzip:
		saved.File = name + ".csv.gz"
	case service.Zip:
		saved.File = name + ".zip"
	default:
		saved.File = name + ".csv"
	}
	return saved, os.Rename(name, saved.File)
}
