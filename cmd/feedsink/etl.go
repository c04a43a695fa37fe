package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

func newETLs() *cobra.Command {
	return newGroup("etl", "Create the service's definitions that load a mapping's files",
		newETLCreate())
}

// etlFlags are what a definition says beyond what follows from the mapping.
type etlFlags struct {
	op, name, remote, transferBox string
	report                        []string
	resultFiles                   bool
}

func newETLCreate() *cobra.Command {
	var mapping string
	var flags etlFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "create -c FILE --mapping NAME",
		Short: "Create the triggered ETLs of a mapping and print the lines that name them",
		Long: "create makes the definitions that load a mapping's files: table, columns, CSV format and import mode are the\n" +
			"mapping's. Without --op it creates one for each import that the configuration leaves without an ETL, such as\n" +
			"`upsert: {mode: CREATE_OR_UPDATE}`. The fingerprint in the line that it prints has feedsink refuse to start once the\n" +
			"mapping has changed and the ETL no longer fits. For a mapping of a bundle it creates what loads the files of all of\n" +
			"its mappings, and prints a line for each. The service cannot remove an ETL: look with --dry-run first.",
		Example: "  feedsink etl create -c feedsink.yaml --mapping customers --dry-run\n" +
			"  feedsink etl create -c feedsink.yaml --mapping customers --op upsert --report-to team@example.com",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd, config.File.Unfinished)
			if err != nil {
				return err
			}
			etls, err := flags.etls(cfg, mapping)
			if err != nil {
				return asUsage(err)
			}
			if dryRun {
				return printResult(cmd, etls, definitionsText(etls))
			}
			client, err := build.NewService(cfg.Service)
			if err != nil {
				return err
			}
			defer client.Close()
			var failed error
			for i := range etls {
				if failed = etls[i].Create(cmd.Context(), client); failed != nil {
					etls = etls[:i] // what was created must not be forgotten
					break
				}
			}
			if len(etls) == 0 {
				return failed
			}
			return errors.Join(printResult(cmd, etls, ops.ETLsText(configFile(cmd), etls)), failed)
		},
	}
	configFlag(cmd)
	mappingFlag(cmd, &mapping)
	outputFlag(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the definitions and create nothing")
	flags.register(cmd)
	return cmd
}

func (f *etlFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.op, "op", "", schemas.OpWords+": the import to create an ETL for, though it may have one")
	cmd.Flags().StringVar(&f.name, "name", "", "name of the ETL (default: feedsink MAPPING OP)")
	cmd.Flags().StringSliceVar(&f.report, "report-to", nil, "e-mail address that gets a report of each import; repeatable")
	cmd.Flags().BoolVar(&f.resultFiles, "result-files", false, "have result files generated, beside error files")
	cmd.Flags().StringVar(&f.remote, "drop-remote", "", "id of the remote location where output files are dropped too")
	cmd.Flags().StringVar(&f.transferBox, "drop-transferbox", "", "entity in whose transfer box output files are dropped too")
}

func parseOp(word string) (schemas.Op, error) {
	op, known := schemas.ParseOp(word)
	if !known {
		return op, usagef("--op: must be "+schemas.OpWords+", is %q", word)
	}
	return op, nil
}

func (f *etlFlags) etls(cfg *config.Config, mapping string) ([]ops.NewETL, error) {
	var op schemas.Op
	var err error
	if f.op != "" {
		if op, err = parseOp(f.op); err != nil {
			return nil, err
		}
	}
	etls, err := ops.ETLs(cfg, mapping, op)
	if err != nil {
		return nil, err
	}
	if f.name != "" && len(etls) > 1 {
		return nil, errors.New("--name: there are several ETLs to create; choose one with --op")
	}
	for i := range etls {
		d := &etls[i].Definition
		if f.name != "" {
			d.Name = f.name
		}
		d.ReportRecipients = f.report
		for i := range d.Files {
			d.Files[i].Parameters.GenerateResultFiles = f.resultFiles
		}
		if f.remote != "" || f.transferBox != "" {
			d.Output = &service.OutputLocation{RemoteLocationID: f.remote, Entity: f.transferBox}
		}
		if err := d.Validate(); err != nil {
			return nil, fmt.Errorf("the definition for %s: %s", etls[i].Op, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return etls, nil
}

// definitionsText is one JSON document after the other, as operation 9 takes them.
func definitionsText(etls []ops.NewETL) string {
	var b strings.Builder
	for _, e := range etls {
		_ = printJSON(&b, e.Definition) // a Builder takes everything
	}
	return strings.TrimRight(b.String(), "\n")
}
