package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/pause"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

// WhyOptions say which rows are asked about: by one of Keys, ProfileID and Record.
type WhyOptions struct {
	Name      string               // of the mapping
	Keys      []string             // of rows
	ProfileID string               // the service's id of a profile
	Record    *cluster.RecordPlace // one of the row's records
	Since     time.Time            // zero: all that the topics hold
	RecordKey string               // of all records of the row, to look only into the partition to which it leads; "": into all
	Values    bool                 // are told
	// Running asks the running sink; nil: it is not asked.
	Running func(context.Context) (Running, error)
	// Progress is told with each record how many there are, and how many of them have been
	// read.
	Progress func(read, of int64)
	Log      *slog.Logger
}

// Running is what a running sink's /status says of what records wait for.
type Running struct {
	Waits    []observe.Wait `json:"waits"`
	Mappings []struct {
		Name string    `json:"name"`
		Due  time.Time `json:"due"` // when the open file is sent at the latest; zero: not known
	} `json:"mappings"`
}

// ErrNoRow says that the record that was asked about is not there, or names no row.
var ErrNoRow = errors.New("names no row of the mapping")

// Why tells what became of the records of rows, beside the running sink or without it.
// Nothing is changed. What it reads comes in this order, so that each tells at least as
// much as was so when the one before was read: records, ledgers, dead letters, receipts.
func Why(ctx context.Context, cfg *config.Config, o WhyOptions) (why.Report, error) {
	q, done, err := newQuestion(ctx, cfg, o)
	if err != nil {
		return why.Report{}, err
	}
	defer done()
	q.report = why.Report{Mapping: q.mapping.Name, Table: q.mapping.Label, Since: o.Since.UTC(), Notes: []string{}}
	search := &why.Search{Router: q.router, Mapping: q.mapping, Keys: o.Keys, ProfileID: o.ProfileID, Decoders: q.decoders}
	if o.Record != nil {
		if err := q.rowOf(ctx, search, q.decoders[0]); err != nil {
			return why.Report{}, err
		}
	}
	found, err := q.find(ctx, search)
	if err != nil {
		return why.Report{}, err
	}
	state, err := q.state(ctx, found)
	if err != nil {
		return why.Report{}, err
	}
	if err := q.receipts(ctx, state, found); err != nil {
		return why.Report{}, err
	}
	q.report.At = time.Now().UTC()
	q.judge(state, found)
	return q.report, nil
}

// question is what is asked, and the report so far.
type question struct {
	WhyOptions
	cfg      *config.Config
	router   *router.Router
	mapping  *router.Compiled
	reader   *cluster.Reader
	decoders []why.Decode
	report   why.Report
}

func newQuestion(ctx context.Context, cfg *config.Config, o WhyOptions) (q *question, done func(), err error) {
	q = &question{WhyOptions: o, cfg: cfg}
	if q.router, err = first(check.CompileUnfinished(cfg.Mappings)); err != nil {
		return nil, nil, err
	}
	if q.mapping, err = mappingOf(q.router, o.Name); err != nil {
		return nil, nil, err
	}
	if o.ProfileID != "" && q.mapping.Table.Custom {
		return nil, nil, fmt.Errorf("mapping %s: --profile-id %w: table records have none", o.Name, ErrNoRow)
	}
	if q.reader, err = cluster.OpenReader(ctx, build.KafkaConnection(cfg.Kafka, o.Log)); err != nil {
		return nil, nil, err
	}
	decoders, stop, err := decode.NewDecoders(ctx, cfg, q.router, newRand(), slog.New(slog.DiscardHandler), runtime.GOMAXPROCS(0))
	if err != nil {
		q.reader.Close()
		return nil, nil, err
	}
	q.decoders = decoders
	return q, func() { stop(); q.reader.Close() }, nil
}

func (q *question) note(format string, args ...any) {
	q.report.Notes = append(q.report.Notes, fmt.Sprintf(format, args...))
}

// rowOf has the search look for the row that a record names.
func (q *question) rowOf(ctx context.Context, search *why.Search, decode why.Decode) error {
	at := q.Record
	nothing := fmt.Errorf("%s %w, or is not there", at, ErrNoRow)
	if !slices.Contains(q.mapping.Config.Topics, at.Topic) {
		return nothing
	}
	spans, err := q.reader.Spans(ctx, at.Topic)
	if err != nil {
		return err
	}
	if span := spans[at.TopicPartition]; at.Offset < span.From || at.Offset >= span.To {
		return nothing
	}
	stretch := cluster.Stretch{TopicPartition: at.TopicPartition, Span: cluster.Span{From: at.Offset, To: at.Offset + 1}}
	err = q.reader.Reread(ctx, q.Log, []cluster.Stretch{stretch}, func(_ int, r *kafka.Record) error {
		decoded, err := decode(r)
		if _, bad := errors.AsType[*schemas.DecodeError](err); bad {
			decoded, err = &router.Record{Topic: r.Topic, Key: r.Key}, nil
		}
		if err != nil {
			return err
		}
		key, id, _ := q.router.Identify(q.mapping, decoded)
		if search.ProfileID = id; key != "" {
			search.Keys, search.ProfileID = []string{key}, ""
		}
		return nil
	})
	if err == nil && len(search.Keys) == 0 && search.ProfileID == "" {
		err = nothing
	}
	return err
}

// find reads the topics up to their present ends.
func (q *question) find(ctx context.Context, search *why.Search) ([]why.Found, error) {
	topics := q.mapping.Config.Topics
	spans, err := q.reader.Spans(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var since map[cluster.TopicPartition]int64
	if !q.Since.IsZero() {
		if since, err = q.reader.After(ctx, q.Since, topics...); err != nil {
			return nil, err
		}
	}
	partitions := map[string]int{}
	for p := range spans {
		partitions[p.Topic]++
	}
	of := int64(0)
	for p, span := range spans {
		if q.RecordKey != "" && p.Partition != cluster.PartitionOf([]byte(q.RecordKey), partitions[p.Topic]) {
			delete(spans, p)
			continue
		}
		begin := max(span.From, since[p])
		if span.From > 0 && begin == span.From {
			q.note("%s begins at offset %d: what came before is deleted", p, span.From)
		}
		spans[p] = cluster.Span{From: begin, To: span.To}
		of += max(span.To-begin, 0)
	}
	slices.Sort(q.report.Notes)
	if q.RecordKey != "" {
		q.note("only the partitions were read to which the record key leads")
	}
	if of == 0 {
		return nil, nil
	}
	return search.Run(ctx, func(ctx context.Context, each func(*kafka.Record) error) error {
		return q.reader.Between(ctx, spans, func(r *kafka.Record) error {
			q.report.Read++
			q.Progress(q.report.Read, of)
			return each(r)
		})
	})
}

// state reads what the lanes have committed, the found records' dead letters, and what a
// running sink waits for.
func (q *question) state(ctx context.Context, found []why.Found) (*why.State, error) {
	s := &why.State{
		Router: q.router, Mapping: q.mapping, Groups: map[schemas.Lane]string{}, Ledgers: map[schemas.Lane]map[cluster.TopicPartition]why.Ledger{},
		Pauses: &pause.Known{}, Values: q.Values,
	}
	for _, m := range q.router.Mappings() {
		if m == q.mapping || m.Config.Bundle != "" && m.Config.Bundle == q.mapping.Config.Bundle {
			s.Tables = append(s.Tables, m.Table.Qualified())
		}
	}
	ids := map[string]ack.TopicID{}
	for _, topic := range q.mapping.Config.Topics {
		id, err := q.reader.TopicID(ctx, topic)
		if err != nil {
			return nil, err
		}
		ids[topic] = id
	}
	for _, lane := range schemas.Lanes {
		group := lane.Group(q.cfg.Kafka.Group)
		commits, err := q.reader.Committed(ctx, group)
		if err != nil {
			return nil, err
		}
		s.Groups[lane], s.Ledgers[lane] = group, map[cluster.TopicPartition]why.Ledger{}
		for p, c := range commits {
			if id, ours := ids[p.Topic]; ours {
				l := why.LedgerOf(c, id)
				s.Ledgers[lane][p] = l
				s.Pauses.Learn(l.Pauses)
			}
		}
	}
	if err := q.letters(ctx, s, found); err != nil {
		return nil, err
	}
	if q.Running == nil {
		return s, nil
	}
	running, err := q.Running(ctx)
	if err != nil {
		q.note("no running sink was asked what its lanes wait for: %v", err)
	}
	s.Waits = running.Waits
	for _, m := range running.Mappings {
		if m.Name == q.mapping.Name {
			s.Due = m.Due
		}
	}
	return s, nil
}

// letters reads the dead letters of the found records.
func (q *question) letters(ctx context.Context, s *why.State, found []why.Found) error {
	topic := q.cfg.DLQ.Topic
	if topic == "" || len(found) == 0 {
		return nil
	}
	marks, err := replay.LoadMarks(ctx, q.reader, topic, q.cfg.Kafka.Group, q.Log)
	if err != nil {
		return err
	}
	for p, span := range marks.Spans() {
		if span.From > 0 {
			q.note("%s begins at offset %d: a record whose dead letter was before it shows as confirmed", p, span.From)
		}
	}
	s.Letters = make(map[cluster.RecordPlace][]why.Letter, len(found))
	for i := range found {
		s.Letters[cluster.PlaceOf(found[i].Record)] = nil
	}
	return marks.Letters(ctx, func(_ *deadletter.Record, l *deadletter.Received) error {
		if l == nil || l.NoRecord() {
			return nil
		}
		at := cluster.PlaceOf(l.Record)
		if of, wanted := s.Letters[at]; wanted {
			s.Letters[at] = append(of, q.letter(l, marks))
		}
		return nil
	})
}

func (q *question) letter(l *deadletter.Received, marks *replay.Marks) why.Letter {
	state, discarded := marks.State(l)
	one := why.Letter{
		Letter: fmt.Sprintf("%d:%d", l.Partition, l.Offset), State: string(state), Ended: state.Ended(), Reason: l.Code, Status: l.Status,
		Execution: l.Execution, Attempts: l.Attempts, Discarded: discarded, MayBeInTable: l.MayBeInTable, Message: l.Plain(), Received: l,
	}
	if q.Values {
		one.Message = l.Message
	}
	return one
}

// judge tells of each key what became of its records.
func (q *question) judge(s *why.State, found []why.Found) {
	if len(q.Keys) == 0 {
		key := ""
		if q.Values && len(found) > 0 {
			key = found[0].Key
		}
		q.report.Keys = []why.Key{s.Judge(key, found)}
		return
	}
	byKey := map[string][]why.Found{}
	for i := range found {
		byKey[found[i].Key] = append(byKey[found[i].Key], found[i])
	}
	for _, key := range q.Keys {
		q.report.Keys = append(q.report.Keys, s.Judge(key, byKey[key]))
	}
}
