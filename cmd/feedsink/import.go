package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/oneshot"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/schemas"
)

// askKafkaFor bounds the look at the sink's last commit.
const askKafkaFor = 10 * time.Second

// importFlags are one import by hand.
type importFlags struct {
	ops.ByHand
	op, server    string
	force, dryRun bool
}

func newImport() *cobra.Command {
	var file, output string
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import -c FILE --mapping NAME FILE.csv",
		Short: "Import one CSV file into a mapping's table, once, and wait for its end",
		Long: "import sends a CSV file (plain, GZIP, or a ZIP with one file) together with its definition: table, CSV format and\n" +
			"import mode are the mapping's, the columns those of the file's first line. With --remote the service fetches a file\n" +
			"of that name itself. The file is looked through first, since each import is one of the table's day; without one left\n" +
			"nothing is sent. --server asks a running sink, which counts the import; otherwise the sink's last commit is read from\n" +
			"Kafka. Rows in error are saved beside the file, as the service reports them: customers' data.",
		Example: "  feedsink import -c feedsink.yaml --mapping customers --server http://feedsink:8080 customers.csv\n" +
			"  feedsink import -c feedsink.yaml --mapping customers --map email=emailAddress --dry-run export.csv.gz\n" +
			"  feedsink import -c feedsink.yaml --mapping customers --remote crm customers-20261121.csv",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := printResult(io.Discard, output, nil, func() string { return "" }); err != nil {
				return err
			}
			var known bool
			if flags.Op, known = schemas.ParseOp(flags.op); !known {
				return &usageError{fmt.Errorf("--op: must be upsert, patch, create or delete, is %q", flags.op)}
			}
			cfg, err := config.LoadUnfinished(file, os.LookupEnv)
			if err != nil {
				return &usageError{err}
			}
			flags.File = args[0]
			job, err := flags.Prepare(cmd.Context(), cfg)
			if err != nil {
				return &usageError{err}
			}
			if flags.dryRun {
				return printResult(cmd.OutOrStdout(), "json", job.Definition, nil)
			}
			if err := flags.takeSlot(cmd.Context(), cfg); err != nil {
				return err
			}
			return launch(cmd, cfg, job, output)
		},
	}
	configFlag(cmd, &file)
	mappingFlag(cmd, &flags.Mapping)
	outputFlag(cmd, &output)
	flags.register(cmd)
	return cmd
}

func (f *importFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.op, "op", "upsert", "what becomes of the rows: upsert, patch, create or delete")
	cmd.Flags().StringToStringVar(&f.Names, "map", nil, "HEADER=COLUMN: the column that a header of the file stands for; repeatable")
	cmd.Flags().StringVar(&f.Remote, "remote", "", "id of the service's remote location that has the file")
	cmd.Flags().BoolVar(&f.DeleteAfter, "delete-remote", false, "have the remote file removed once it is loaded")
	cmd.Flags().BoolVar(&f.ResultFile, "result-file", false, "have a result file generated, and fetch it")
	cmd.Flags().StringSliceVar(&f.ReportTo, "report-to", nil, "e-mail address that gets a report; repeatable")
	cmd.Flags().StringVar(&f.server, "server", "", "admin server of the running sink that has the table")
	cmd.Flags().BoolVar(&f.force, "force", false, "send although no import is left today, or nobody can tell")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "look through the file, print the definition and send nothing")
}

// takeSlot refuses where the table has no import left today.
func (f *importFlags) takeSlot(ctx context.Context, cfg *config.Config) error {
	err := f.askForSlot(ctx, cfg)
	if err == nil || f.force {
		return nil
	}
	return fmt.Errorf("%w; nothing was sent, --force sends all the same", err)
}

func (f *importFlags) askForSlot(ctx context.Context, cfg *config.Config) error {
	if f.server == "" {
		asking, cancel := context.WithTimeout(ctx, askKafkaFor)
		defer cancel()
		left, err := ops.SlotsLeft(asking, cfg, f.Mapping)
		switch {
		case err != nil:
			return fmt.Errorf("mapping %s: how many imports are left today cannot be seen: %w; --server asks a running sink", f.Mapping, err)
		case left == 0:
			return fmt.Errorf("mapping %s: %w", f.Mapping, ops.ErrNoSlot)
		}
		return nil
	}
	known, err := credentials(cfg.Admin.TokenFile, cfg.Admin.TLS.CertFile)
	if err != nil {
		return &usageError{err}
	}
	client, err := admin.NewClient(f.server, known)
	if err != nil {
		return &usageError{fmt.Errorf("--server: %w", err)}
	}
	var left connector.MappingImports
	if err := client.TakeSlot(ctx, f.Mapping, &left); err != nil {
		return explained(err, f.server)
	}
	return nil
}

// launch sends the file and prints how the import ended. Rows in error are a
// failure of the command.
func launch(cmd *cobra.Command, cfg *config.Config, job *ops.Prepared, output string) error {
	client, err := build.NewService(cfg.Service)
	if err != nil {
		return err
	}
	defer client.Close()
	watch := newProgress(cmd.ErrOrStderr())
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	result, err := job.Run(cmd.Context(), client, rnd.Float64, watch)
	watch.end()
	if err != nil {
		return withReason(err)
	}
	if err := printResult(cmd.OutOrStdout(), output, result, func() string { return oneShotText(result, job.Table) }); err != nil {
		return err
	}
	switch {
	case result.Error != "":
		return fmt.Errorf("the import failed: %s", result.Error)
	case !result.Whole():
		return errors.New("not every row was loaded")
	}
	return nil
}

// oneShotText has a line for each thing that the service told.
func oneShotText(r oneshot.Result, table string) string {
	lines := [][]string{{"execution", r.Execution}, {"table", table}, {"status", r.Status}}
	for _, c := range []struct {
		name  string
		count *int64
	}{{"rows read", r.Read}, {"in error", r.InError}, {"inserted", r.Inserted}, {"updated", r.Updated}, {"deleted", r.Deleted}} {
		if c.count != nil {
			lines = append(lines, []string{c.name, fmt.Sprint(*c.count)})
		}
	}
	if r.OutputFile != "" {
		lines = append(lines, []string{"output file", r.OutputFile})
	}
	return strings.TrimRight(aligned(lines), "\n")
}
