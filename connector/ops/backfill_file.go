package ops

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/oneshot"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Errors of a backfill by files.
var (
	// ErrByFile says that the mapping has no files.
	ErrByFile = errors.New("all of its routes lead to calls, so there is no file of it: use --by calls")
	// ErrNoSink says that no running sink was named, which has to pause.
	ErrNoSink = errors.New("by file takes the running sink, which pauses the table's live traffic and counts the import: name its admin server with --server, or use --by calls")
)

// decideBy is how the backfill goes, and why.
func decideBy(o *BackfillOptions) (by, why string, err error) {
	makesCalls, makesFiles := o.Mapping.Uses(schemas.Immediate), o.Mapping.Uses(schemas.Batch)
	switch {
	case o.By == replay.ByFile && !makesFiles:
		return "", "", fmt.Errorf("mapping %s: %w", o.Name, ErrByFile)
	case o.By == replay.ByFile, o.By == replay.ByCalls:
		return o.By, "--by", nil
	case o.AsCalls:
		return replay.ByCalls, "--as-calls", nil
	case makesCalls:
		return replay.ByCalls, "the mapping makes calls, which would wait while a file is loaded", nil
	}
	return replay.ByFile, "the mapping makes no calls", nil
}

// backfillDir begins the names of directories in the spool that are of backfills.
const backfillDir = "backfill-"

// newFiles is what sends the backfill's files, in a directory of its own that done removes.
func newFiles(cfg *config.Config, o *BackfillOptions, run *replay.Replay, api oneshot.Service) (files *replay.Files, done func(), err error) {
	m := build.BatchMapping(o.Mapping)
	rows, err := m.Rows()
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %s: %w", m.Name, err)
	}
	zone, err := time.LoadLocation(o.Mapping.Config.Imports.Timezone)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %s: imports.timezone: %w", m.Name, err)
	}
	name := backfillDir + m.Name
	if o.DryRun {
		name += ".dry-run" // beside one that runs
	}
	path := filepath.Join(cfg.Spool.Dir, name)
	dir, err := spool.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	im := &tableImports{options: o, cfg: cfg, reader: run.Reader, api: api, mappings: mappingsBeside(run.Router, o.Mapping), zone: zone}
	return &replay.Files{Imports: im, Dir: dir, Rows: rows, Compression: packedByHand(m.CSV.Compression), Limit: m.MaxFile, Rand: newRand()}, func() {
		_ = dir.Close()
		_ = os.RemoveAll(path) // what stays of it the next backfill removes
	}, nil
}

// packedByHand is how a file is packed that operation 8 sends, which takes a CSV or a ZIP: of
// operation 10, which the mapping has its files for, a GZIP is taken, too.
func packedByHand(compression string) string {
	if compression == string(service.Plain) {
		return compression
	}
	return string(service.Zip)
}

// withFiles runs the backfill, by files if it goes so. A dry run counts them wherever the
// mapping has files, if they can be written here.
func withFiles(ctx, working context.Context, cfg *config.Config, o *BackfillOptions, by string, b *replay.Backfill, api oneshot.Service) (replay.BackfillReport, error) {
	if !o.Mapping.Uses(schemas.Batch) || by == replay.ByCalls && !o.DryRun {
		return b.Run(ctx, working)
	}
	files, done, err := newFiles(cfg, o, b.Replay, api)
	if err != nil && by == replay.ByCalls {
		report, failed := b.Run(ctx, working)
		report.Files = &replay.BackfillFiles{Why: err.Error()}
		return report, failed
	}
	if err != nil {
		return replay.BackfillReport{}, err
	}
	defer done()
	b.Files = files
	return b.Run(ctx, working)
}

// mappingsBeside are those that write the mapping's table, itself among them.
func mappingsBeside(r *router.Router, m *router.Compiled) []*router.Compiled {
	return slices.DeleteFunc(r.Mappings(), func(other *router.Compiled) bool { return other.Table != m.Table })
}

// tableImports makes a backfill's imports beside the running sink that has the table.
type tableImports struct {
	options  *BackfillOptions
	cfg      *config.Config
	reader   *cluster.Reader
	api      oneshot.Service
	mappings []*router.Compiled // that write the table
	zone     *time.Location
}

func (t *tableImports) sink() (*admin.Client, error) {
	if t.options.Sink == nil {
		return nil, ErrNoSink
	}
	return t.options.Sink, nil
}

// Slots leaves the sink its reserve, unless that was asked for, and the slots of its times of
// day. A dry run asks no sink.
func (t *tableImports) Slots(ctx context.Context) (left, perDay int, err error) {
	if t.options.DryRun {
		left, err = SlotsLeft(ctx, t.cfg, t.options.Name)
		left, perDay = t.spare(left)
		return left, perDay, err
	}
	sink, err := t.sink()
	if err != nil {
		return 0, 0, err
	}
	var m observe.MappingImports
	if err := sink.Import(ctx, t.options.Name, &m); err != nil {
		return 0, 0, t.asked(err)
	}
	if m.SlotsLeft == nil {
		return 0, 0, fmt.Errorf("mapping %s: the sink that was asked does not have its table; %s, with --server and the address of its admin server", t.options.Name, observe.AskOwner(m.Owner))
	}
	left, perDay = t.spare(*m.SlotsLeft)
	return left, perDay, nil
}

// spare is how many of the imports that are left the backfill may use.
func (t *tableImports) spare(left int) (today, perDay int) {
	im := t.options.Mapping.Config.Imports
	at := im.Roll.TimesOfDay()
	keeps := 0
	if !t.options.Reserve {
		keeps = im.Reserve
	}
	day := time.Now().In(t.zone).YearDay()
	later := 0
	for next := slots.Next(at, t.zone, time.Now()); !next.IsZero() && next.In(t.zone).YearDay() == day; next = slots.Next(at, t.zone, next) {
		later++
	}
	return max(left-keeps-later, 0), max(im.SlotsPerDay-keeps-len(at), 0)
}

// asked says what may be done about a sink that does not answer.
func (t *tableImports) asked(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if refusal, ok := errors.AsType[*admin.Refusal](err); ok {
		return refusal
	}
	return fmt.Errorf("%w: %w", ErrNoSink, err)
}

// TakeSlot implements replay.Imports.
func (t *tableImports) TakeSlot(ctx context.Context) error {
	sink, err := t.sink()
	if err != nil {
		return err
	}
	var m observe.MappingImports
	if err := sink.TakeSlot(ctx, t.options.Name, &m); err != nil {
		return t.asked(err)
	}
	return nil
}

// job is the import of a file of op.
func (t *tableImports) job(op schemas.Op, path string) oneshot.Job {
	m := t.options.Mapping
	load := fileLoad(m, op, m.FileColumns(op))
	ByHand{Op: op}.keepUnsaid(m, load.Destination.Attributes)
	return oneshot.Job{
		Definition: service.OneShotETL{Load: load}, Path: path, Zone: t.zone,
		Poll: retry.Backoff{Initial: build.FirstPoll, Max: build.SlowestPoll},
	}
}

// Launch implements replay.Imports.
func (t *tableImports) Launch(ctx context.Context, op schemas.Op, path string) (execution string, err error) {
	job := t.job(op, path)
	if err := job.Definition.Validate(); err != nil {
		return "", fmt.Errorf("%w: its definition: %w", replay.ErrNotStarted, err)
	}
	execution, err = job.Launch(ctx, t.api, unwatched{})
	if err != nil && oneshot.NotStarted(err) {
		err = fmt.Errorf("%w: %w", replay.ErrNotStarted, err)
	}
	return execution, err
}

// Await implements replay.Imports.
func (t *tableImports) Await(ctx context.Context, execution string, rows int64, asked func()) (replay.ImportEnd, error) {
	job := t.job(0, "")
	job.Rows = rows
	r, err := job.Await(ctx, t.api, rand.Float64, unwatched{asked}, execution)
	end := replay.ImportEnd{Failed: r.Status == string(service.Failed), Unread: rows > 0 && r.Unread(rows), InError: -1}
	if end.Unread {
		end.Read = *r.Read
	}
	if r.InError != nil {
		end.InError = *r.InError
	}
	return end, err
}

// unwatched passes on that the import goes on.
type unwatched struct{ asked func() }

func (unwatched) Sending(int64, int64) {}

func (u unwatched) Waiting(string) { u.asked() }

func (u unwatched) Asked(string, error) { u.asked() }
