// Package ops does what commands do beside running the sink: plan, test, create webhooks and
// ETLs, replay dead letters, backfill, verify, import a file by hand. Each takes the configuration, says
// what it found or did, and has the exit of a command in mind, not its flags.
package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/plan"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

// Sample says which records a plan looks at: the last Limit of all topics together,
// spread evenly over their partitions, or of them those that are not older than
// Since.
type Sample struct {
	Limit int64
	Since time.Time // zero: whatever their age
	Show  int       // requests and lines of CSV to be shown for each mapping and op
	// Progress is told with each record how many there are, and how many of them have been
	// read; nil: it is not wanted. Of records that are compacted away none is told.
	Progress func(read, of int64)
	// Cut is told, before any record, each partition that has older records which are left
	// out for their number alone; nil: it is not wanted.
	Cut func(topic string, partition int32)
}

// Plan reads a sample of the configuration's topics and tells what a sink would make
// of it. It joins no group and sends nothing to the service.
func Plan(ctx context.Context, cfg *config.Config, sample Sample) (plan.Report, error) {
	r, err := first(check.CompileUnfinished(cfg.Mappings))
	if err != nil {
		return plan.Report{}, err
	}
	limits := plan.Limits{
		RateCalls: cfg.Service.Rate.Calls, RatePer: cfg.Service.Rate.Per, Unchanged: int64(cfg.Memory.Unchanged),
		Show: sample.Show,
	}
	p, err := plan.New(limits, r.Mappings(),
		func(m *router.Compiled) (*spool.Preview, error) {
			rows, err := build.BatchMapping(m).Rows()
			if err != nil {
				return nil, err
			}
			return spool.NewPreview(rows), nil
		})
	if err != nil {
		return plan.Report{}, err
	}
	look := plan.NewLook(r)
	sample.Cut = p.Cut
	topics, err := RouteSample(ctx, cfg, r, r.Topics(schemas.Lanes...), sample, func(record *router.Record, routed []router.Routed, err error) {
		if err != nil {
			p.Undecodable(record, err)
			return
		}
		p.Add(record, routed)
		look.Take(record, routed)
	})
	if err != nil {
		return plan.Report{}, err
	}
	shown, err := newShownCalls(cfg.Service)
	if err != nil {
		return plan.Report{}, err
	}
	report, err := p.Report(topics, func(w *schemas.Write) (plan.Request, error) { return shown.request(ctx, w) })
	for i, m := range r.Mappings() {
		if err == nil {
			report.Mappings[i].NotFound = look.NotFound(m)
			report.Mappings[i].OtherKeys = look.OtherKeys(m)
		}
	}
	return report, err
}

// RouteSample reads a sample of topics, without being a member of any group, and calls
// each with what the router makes of every record, by partition in order: its writes, or
// err if it cannot be decoded; of such a record only the place is known. What each gets
// is valid until the next call. An error is one of Kafka or of the schema registry; the
// topics tell what was read until then.
func RouteSample(ctx context.Context, cfg *config.Config, r *router.Router, topics []string, sample Sample,
	each func(record *router.Record, routed []router.Routed, err error),
) ([]plan.Topic, error) {
	reader, err := cluster.OpenReader(ctx, build.KafkaConnection(cfg.Kafka, nil))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	decode, stop, err := decode.NewDecoder(ctx, cfg, r, newRand(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer stop()
	var routed []router.Routed
	return readSample(ctx, reader, topics, sample, func(record *kafka.Record) error {
		decoded, err := decode(record)
		if errors.Is(err, schemas.ErrSchemaUnavailable) {
			return err
		}
		if err != nil {
			each(&router.Record{Topic: record.Topic, Partition: record.Partition, Offset: record.Offset}, nil, err)
			return nil
		}
		routed = r.Route(routed[:0], decoded)
		each(decoded, routed, nil)
		return nil
	})
}

// told is each, and tells of the records that the spans hold.
func told(progress func(read, of int64), spans map[cluster.TopicPartition]cluster.Span, each func(*kafka.Record) error) func(*kafka.Record) error {
	if progress == nil {
		return each
	}
	var read, of int64
	for _, span := range spans {
		of += span.To - span.From
	}
	return func(r *kafka.Record) error {
		read++
		progress(read, of)
		return each(r)
	}
}

// readSample calls each for the records of the sample, by partition in order.
func readSample(ctx context.Context, reader *cluster.Reader, names []string, sample Sample, each func(*kafka.Record) error) ([]plan.Topic, error) {
	spans, err := reader.Spans(ctx, names...)
	if err != nil {
		return nil, err
	}
	since := map[cluster.TopicPartition]int64{}
	if !sample.Since.IsZero() {
		if since, err = reader.After(ctx, sample.Since, names...); err != nil {
			return nil, err
		}
	}
	topics := make([]plan.Topic, len(names))
	for i, name := range names {
		topics[i].Name = name
	}
	share := max(sample.Limit/max(int64(len(spans)), 1), 1)
	for p, span := range spans {
		t := &topics[slices.Index(names, p.Topic)]
		t.Partitions++
		t.Stored += span.To - span.From
		spans[p] = cluster.Span{From: max(span.From, span.To-share, since[p]), To: span.To}
		if sample.Cut != nil && span.To-share > max(span.From, since[p]) {
			sample.Cut(p.Topic, p.Partition)
		}
	}
	each = told(sample.Progress, spans, each)
	return topics, reader.Between(ctx, spans, func(r *kafka.Record) error {
		t := &topics[slices.Index(names, r.Topic)]
		t.Sampled++
		if t.First.IsZero() || r.Timestamp.Before(t.First) {
			t.First = r.Timestamp
		}
		if r.Timestamp.After(t.Last) {
			t.Last = r.Timestamp
		}
		return each(r)
	})
}

// shownCalls is the client of the service with nothing behind it: what it would
// send is seen instead.
type shownCalls struct {
	calls writes.Operations
	last  *plan.Request
}

func newShownCalls(cfg config.Service) (*shownCalls, error) {
	s := &shownCalls{last: &plan.Request{}}
	client, err := service.New(service.Config{
		BaseURL: cfg.BaseURL, AuthURL: cfg.AuthURL, Entity: cfg.Entity, Timeout: cfg.Timeout, Transport: s,
		APIKey: func() (service.Secret, error) { return service.NewSecret("none"), nil },
	})
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	s.calls.Client = client
	return s, nil
}

// RoundTrip answers for the service without asking it.
func (s *shownCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	body := "{}"
	if strings.HasSuffix(r.URL.Path, "/auth/token") {
		body = `{"accessToken":"none","tokenType":"bearer","expiresIn":"900s"}`
	} else {
		*s.last = plan.Request{Method: r.Method, Path: r.URL.RequestURI()}
		if r.Body != nil {
			sent, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			s.last.Body = string(sent)
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

func (s *shownCalls) request(ctx context.Context, w *schemas.Write) (plan.Request, error) {
	*s.last = plan.Request{}
	if err := s.calls.Call(ctx, w, writes.Create{}); err != nil {
		return plan.Request{}, err
	}
	if s.last.Body != "" && !json.Valid([]byte(s.last.Body)) {
		return plan.Request{}, fmt.Errorf("the body of %s %s is no JSON", s.last.Method, s.last.Path)
	}
	return *s.last, nil
}
