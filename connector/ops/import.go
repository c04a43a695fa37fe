package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/oneshot"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// ByHand is an import by hand: a file into the table of a mapping.
type ByHand struct {
	Mapping string
	Op      schemas.Op // what becomes of the rows
	File    string     // its path; with Remote, its name there
	Remote  string     // id of a remote location of the service; "": File is sent
	// Names says which column of the mapping a header of the file stands for,
	// where it is not the same word.
	Names       map[string]string
	DeleteAfter bool // have the service remove a remote file once it is loaded
	ResultFile  bool // have one generated and fetch it
	ReportTo    []string
}

// Prepared is an import that can be launched.
type Prepared struct {
	oneshot.Job
	Content *oneshot.Content // of a file that is sent; nil: the service has it
	Table   string
}

// Prepare looks through the file and writes the definition. Nothing is sent.
func (b ByHand) Prepare(ctx context.Context, cfg *config.Config) (*Prepared, error) {
	m, err := compiled(cfg, b.Mapping)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(m.Config.Imports.Timezone)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: imports.timezone: %w", b.Mapping, err)
	}
	load := fileLoad(m, b.Op, m.FileColumns(b.Op))
	if load.Parameters.Mode == "" {
		load.Parameters.Mode = defaultModes[b.Op]
	}
	load.Parameters.GenerateResultFiles = b.ResultFile
	p := &Prepared{Table: m.Label, Job: oneshot.Job{
		Zone: zone, KeepResult: b.ResultFile, Poll: retry.Backoff{Initial: build.FirstPoll, Max: build.SlowestPoll},
	}}
	b.keepUnsaid(m, load.Destination.Attributes)
	definition := service.OneShotETL{Load: load, ReportRecipients: b.ReportTo}
	if b.Remote != "" {
		definition.Remote = &service.RemoteFile{LocationID: b.Remote, NamePattern: b.File, Compression: packing(b.File), DeleteOnSuccess: b.DeleteAfter}
		if len(m.Columns) == 0 {
			return nil, fmt.Errorf("mapping %s: imports.columns: is not configured, and what a remote file has cannot be seen", b.Mapping)
		}
	} else {
		content, err := oneshot.Inspect(ctx, b.File, load.CSV)
		if err != nil {
			return nil, err
		}
		if definition.Destination.Attributes, err = b.attributes(m, load.Destination.Attributes, content.Headers); err != nil {
			return nil, fmt.Errorf("%s: %w", b.File, err)
		}
		b.keepUnsaid(m, definition.Destination.Attributes)
		p.Content, p.Path, p.OutputDir = &content, b.File, filepath.Dir(b.File)
	}
	if err := definition.Validate(); err != nil {
		return nil, fmt.Errorf("the import's definition: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	p.Definition = definition
	return p, nil
}

// keepUnsaid has an import of patches or merges leave alone what a row leaves empty: a file by
// hand has no other way to say nothing.
func (b ByHand) keepUnsaid(m *router.Compiled, columns []service.Attribute) {
	for i := range columns {
		if b.Op.Partial() && columns[i].Name != m.KeyName {
			columns[i].IgnoreEmptyValues = true
		}
	}
}

// defaultModes serve mappings that have no import for an op.
var defaultModes = map[schemas.Op]service.Mode{
	schemas.Upsert: service.ModeCreateOrUpdate, schemas.Patch: service.ModeUpdateOnly, schemas.Merge: service.ModeCreateOrUpdate,
	schemas.Create: service.ModeCreateOnly, schemas.Delete: service.ModeDelete,
}

// packing is what a remote file's name says of its compression.
func packing(name string) service.Compression {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".gz":
		return service.Gzip
	case ".zip":
		return service.Zip
	}
	return service.Plain
}

// attributes maps the headers that the file has. Where the mapping lists columns,
// a header that is none of them is a slip that would cost an import.
func (b ByHand) attributes(m *router.Compiled, columns []service.Attribute, headers []string) ([]service.Attribute, error) {
	for header := range b.Names {
		if !slices.Contains(headers, header) {
			return nil, fmt.Errorf("has no header %q; its headers are %s", header, strings.Join(headers, ", "))
		}
	}
	var mapped []service.Attribute
	var known, unknown []string
	for _, c := range columns {
		known = append(known, c.Header)
	}
	for _, header := range headers {
		name := cmp.Or(b.Names[header], header)
		i := slices.Index(known, name)
		switch {
		case i >= 0:
			mapped = append(mapped, service.Attribute{Header: header, Name: name, IgnoreEmptyValues: columns[i].IgnoreEmptyValues})
		case len(known) == 0:
			mapped = append(mapped, service.Attribute{Header: header, Name: name})
		default:
			unknown = append(unknown, header)
		}
	}
	for i, a := range mapped {
		if first := slices.IndexFunc(mapped, func(b service.Attribute) bool { return b.Name == a.Name }); first < i {
			return nil, fmt.Errorf("the headers %q and %q both stand for %s; leave one of them out of the file, or say what it stands for, HEADER=COLUMN",
				mapped[first].Header, a.Header, a.Name)
		}
	}
	switch {
	case len(unknown) > 0:
		return nil, fmt.Errorf("%s: not among the columns of mapping %s for %v (%s); say what a header stands for, HEADER=COLUMN",
			strings.Join(unknown, ", "), m.Name, b.Op, strings.Join(known, ", "))
	case !slices.ContainsFunc(mapped, func(a service.Attribute) bool { return a.Name == m.KeyName }):
		return nil, fmt.Errorf("has no column for the key %s", m.KeyName)
	}
	return mapped, nil
}

// Imports reports whether the sink imports into the table of a mapping.
func Imports(cfg *config.Config, mapping string) (bool, error) {
	m, err := compiled(cfg, mapping)
	return err == nil && m.Uses(schemas.Batch), err
}

// SlotsLeft is how many imports a mapping's table has left today, the reserve
// included, as the batch lane's last commit has it. It asks Kafka without joining
// a group, so it works whether a sink runs or not.
func SlotsLeft(ctx context.Context, cfg *config.Config, mapping string) (int, error) {
	m, err := compiled(cfg, mapping)
	if err != nil {
		return 0, err
	}
	im := m.Config.Imports
	zone, err := time.LoadLocation(im.Timezone)
	if err != nil {
		return 0, fmt.Errorf("mapping %s: imports.timezone: %w", mapping, err)
	}
	plan := slots.Plan{PerDay: im.SlotsPerDay, Zone: zone}
	if !m.Uses(schemas.Batch) {
		return plan.Remaining(time.Now(), nil), nil // no sink imports into the table
	}
	reader, err := cluster.OpenReader(ctx, build.KafkaConnection(cfg.Kafka, nil))
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	commits, err := reader.Committed(ctx, schemas.Batch.Group(cfg.Kafka.Group))
	if err != nil {
		return 0, err
	}
	var counted ack.Ledger // on another topic's partition, before the mapping's topics changed, or on this one's
	home := cluster.TopicPartition{Topic: m.Config.Topics[0]}
	for at, commit := range commits {
		ledger, err := ack.Decode(commit.Metadata, commit.Offset)
		switch {
		case err != nil && at == home:
			return 0, fmt.Errorf("the ledger of %s: %w", home, err)
		case err != nil:
			continue // it may be of another tool
		}
		for _, sl := range ledger.Slots {
			if m.Table.IsNamed(sl.Table) {
				counted.JoinSlots([]ack.Slots{{Used: sl.Used}})
			}
		}
	}
	used := counted.UsedSlots("")
	return plan.Remaining(time.Now(), used), nil
}

// ErrNoSlot says that the table's imports of the day are used up.
var ErrNoSlot = errors.New("no import is left today")
