package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/oneshot"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/schemas"
)

// askKafkaFor bounds the look at the sink's last commit.
const askKafkaFor = 10 * time.Second

type importFlags struct {
	ops.ByHand
	op, server    string
	force, dryRun bool
}

func newImport() *cobra.Command {
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import -c FILE --mapping NAME FILE.csv",
		Short: "Import one CSV file into a mapping's table, once, and wait for its end",
		Long: "import sends a CSV file (plain, GZIP, or a ZIP with one file) together with its definition: table, CSV format and\n" +
			"import mode are the mapping's, the columns those of the file's first line. With --remote the service fetches a file\n" +
			"of that name itself. The file is looked through first, since each import is one of the table's day; without one left\n" +
			"nothing is sent. The running sink counts the import: the one at --server, or else the one of the configuration on this machine.\n" +
			"Where none answers there, the import is counted nowhere, and the sink's last commit is read from Kafka. Rows in error are\n" +
			"saved beside the file, as the service reports them: customers' data.",
		Example: "  feedsink import -c feedsink.yaml --mapping customers --server http://feedsink:8080 customers.csv\n" +
			"  feedsink import -c feedsink.yaml --mapping customers --map email=emailAddress --dry-run export.csv.gz\n" +
			"  feedsink import -c feedsink.yaml --mapping customers --remote crm customers-20261121.csv",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if flags.Op, err = parseOp(flags.op); err != nil {
				return err
			}
			if err := flags.fit(); err != nil {
				return err
			}
			cfg, err := load(cmd, config.File.Unfinished)
			if err != nil {
				return err
			}
			flags.File = args[0]
			job, err := flags.Prepare(cmd.Context(), cfg)
			if err != nil {
				return asUsage(err)
			}
			if flags.dryRun {
				return printJSON(cmd.OutOrStdout(), job.Definition)
			}
			if err := flags.takeSlot(cmd, cfg); err != nil {
				return err
			}
			return launch(cmd, cfg, job)
		},
	}
	configFlag(cmd)
	mappingFlag(cmd, &flags.Mapping)
	outputFlag(cmd)
	flags.register(cmd)
	return cmd
}

func (f *importFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.op, "op", "upsert", "what becomes of the rows: "+schemas.OpWords)
	cmd.Flags().StringToStringVar(&f.Names, "map", nil, "HEADER=COLUMN: the column that a header of the file stands for; repeatable; not with --remote")
	cmd.Flags().Lookup("map").DefValue = "" // help would show it as []
	cmd.Flags().StringVar(&f.Remote, "remote", "", "id of the service's remote location that has the file")
	cmd.Flags().BoolVar(&f.DeleteAfter, "delete-remote", false, "with --remote: have the file removed once it is loaded")
	cmd.Flags().BoolVar(&f.ResultFile, "result-file", false, "have a result file generated, and fetch it")
	cmd.Flags().StringSliceVar(&f.ReportTo, "report-to", nil, "e-mail address that gets a report; repeatable")
	cmd.Flags().StringVar(&f.server, "server", "", "admin server of the running sink that has the table (default: admin.listen of the configuration, on this machine)")
	cmd.Flags().BoolVar(&f.force, "force", false, "send although no import is left today, or it is not known")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "look through the file, print the definition and send nothing")
}

// fit refuses flags that would do nothing beside the others.
func (f *importFlags) fit() error {
	switch {
	case f.Remote != "" && len(f.Names) > 0:
		return usagef("--map: not with --remote, as the headers of a remote file cannot be seen: they must be the columns of the mapping")
	case f.Remote == "" && f.DeleteAfter:
		return usagef("--delete-remote: only with --remote")
	}
	return nil
}

func (f *importFlags) takeSlot(cmd *cobra.Command, cfg *config.Config) error {
	err := f.askForSlot(cmd, cfg)
	if err == nil || f.force {
		return nil
	}
	unsent := fmt.Errorf("%w; nothing was sent, --force sends all the same", err)
	if _, ok := errors.AsType[*usageError](err); ok {
		return asUsage(unsent)
	}
	return unsent
}

// askForSlot has the sink count the import: the one at --server, or else the one of the
// configuration on this machine. Where none listens there, it is not counted, and Kafka is asked
// whether the table has an import left.
func (f *importFlags) askForSlot(cmd *cobra.Command, cfg *config.Config) error {
	imports, err := ops.Imports(cfg, f.Mapping)
	if err != nil {
		return asUsage(err)
	}
	if f.server == "" && !imports {
		cmd.PrintErrf("this import is counted nowhere: no route of mapping %s leads to the batch lane\n", f.Mapping)
		return nil
	}
	at, client, err := sinkOf(f.server, cfg.Admin, "")
	if err != nil {
		return err
	}
	var left observe.MappingImports
	err = client.TakeSlot(cmd.Context(), f.Mapping, &left)
	switch {
	case err == nil:
		return nil
	case f.server != "" || !errors.Is(err, syscall.ECONNREFUSED):
		return explained(err, at)
	}
	cmd.PrintErrf("this import is counted nowhere, for no sink answers at %s: one that runs elsewhere, or is started today, does not know of it; --server asks one that runs elsewhere\n", at)
	return f.seeSlots(cmd.Context(), cfg)
}

// seeSlots reads from Kafka whether the table has an import left today.
func (f *importFlags) seeSlots(ctx context.Context, cfg *config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, askKafkaFor)
	defer cancel()
	left, err := ops.SlotsLeft(ctx, cfg, f.Mapping)
	switch {
	case err != nil:
		return fmt.Errorf("mapping %s: how many imports are left today cannot be seen: %w; --server asks a running sink", f.Mapping, err)
	case left == 0:
		return fmt.Errorf("mapping %s: %w", f.Mapping, ops.ErrNoSlot)
	}
	return nil
}

// launch sends the file and prints how the import ended. Rows in error are a
// failure of the command.
func launch(cmd *cobra.Command, cfg *config.Config, job *ops.Prepared) error {
	client, err := build.NewService(cfg.Service)
	if err != nil {
		return err
	}
	defer client.Close()
	watch := newProgress(cmd)
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	result, err := job.Run(cmd.Context(), client, rnd.Float64, watch)
	watch.end()
	if err != nil {
		return withReason(err)
	}
	if err := printResult(cmd, result, result.Text(job.Table)); err != nil {
		return err
	}
	return short(job, result)
}

// short says what an import that has ended falls short of.
func short(job *ops.Prepared, result oneshot.Result) error {
	switch {
	case result.Error != "":
		return fmt.Errorf("the import failed: %s", result.Error)
	case !result.Whole():
		return errors.New("not every row was loaded")
	case job.Content != nil && result.Unread(job.Content.Rows):
		return fmt.Errorf("the file has %d rows, and the service says that it has read %d; look at the table, and send the file again if its rows are not there", job.Content.Rows, *result.Read)
	}
	return nil
}
