package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/gzip"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/schemas"
)

// callsSettings are those of the immediate lane's floor.
type callsSettings struct {
	Service string `json:"service"`
	Workers int    `json:"workers"`
	Calls   int    `json:"calls"`
}

// playCalls is the floor of the immediate lane: a bare net/http loop.
func playCalls(ctx context.Context, w *wire) error {
	var s callsSettings
	if err := w.settings(&s); err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.Workers}}
	bodies := make([][]byte, variants)
	for i := range bodies {
		bodies[i] = appendBody(nil, customer(i), i)
	}
	var next atomic.Int64
	return w.serve(ctx, answer{}, nil, func(ctx context.Context) error {
		failed := make(chan error, s.Workers)
		var workers sync.WaitGroup
		for range s.Workers {
			workers.Go(func() {
				for i := next.Add(1) - 1; i < int64(s.Calls) && ctx.Err() == nil; i = next.Add(1) - 1 {
					if err := post(ctx, client, s.Service+profilesPath(entity, table), bodies[i%variants]); err != nil {
						if ctx.Err() == nil { // else the bench has seen enough
							failed <- err
						}
						return
					}
				}
			})
		}
		workers.Wait()
		close(failed)
		return <-failed
	})
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer bench")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", response.Status)
	}
	return nil
}

// transformSettings are those of the batch lane's floor.
type transformSettings struct {
	Broker string         `json:"broker"`
	Topic  string         `json:"topic"`
	Format schemas.Format `json:"format"`
}

// profile is an event as the floor decodes it: into a struct that fits exactly.
type profile struct {
	Attributes struct {
		CustomerNumber string   `json:"customerNumber"`
		EmailAddress   string   `json:"emailAddress"`
		FirstName      string   `json:"firstName"`
		LastName       string   `json:"lastName"`
		Languages      []string `json:"languages"`
		Points         int64    `json:"points"`
		LastVisit      string   `json:"lastVisit"`
	} `json:"attributes"`
	Subscriptions struct {
		Newsletter bool `json:"newsletter"`
	} `json:"subscriptions"`
	Segments struct {
		VIP  bool   `json:"vip"`
		Tier string `json:"tier"`
	} `json:"segments"`
}

// row are the columns of the sink's file.
func (p *profile) row(dst []string) []string {
	a := &p.Attributes
	languages := `["` + a.Languages[0] + `","` + a.Languages[1] + `"]`
	return append(dst, a.CustomerNumber, a.EmailAddress, a.FirstName, a.LastName, languages,
		strconv.FormatInt(a.Points, 10), a.LastVisit,
		strconv.FormatBool(p.Subscriptions.Newsletter), strconv.FormatBool(p.Segments.VIP), p.Segments.Tier)
}

// rowOf decodes an event into a struct and appends its columns.
func rowOf(f schemas.Format) func(event []byte, row []string) ([]string, error) {
	if f == schemas.FormatAvro {
		schema := avro.MustParse(visitAvro)
		return func(event []byte, row []string) ([]string, error) {
			var v visit
			if _, err := schema.Decode(event[len(framed()):], &v); err != nil {
				return nil, err
			}
			return v.row(row), nil
		}
	}
	return func(event []byte, row []string) ([]string, error) {
		var p profile
		if err := json.Unmarshal(event, &p); err != nil {
			return nil, err
		}
		return p.row(row), nil
	}
}

// bareConsumer reads a topic from its start with the settings that a client has by
// itself.
func bareConsumer(broker, topic string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
}

// playTransform is the floor of the batch lane.
func playTransform(ctx context.Context, w *wire) error {
	var s transformSettings
	if err := w.settings(&s); err != nil {
		return err
	}
	consumer, err := bareConsumer(s.Broker, s.Topic)
	if err != nil {
		return err
	}
	defer consumer.Close()
	compressed, err := gzip.NewWriterLevel(io.Discard, 2)
	if err != nil {
		return err
	}
	file := csv.NewWriter(compressed)
	decoded := rowOf(s.Format)
	var done atomic.Int64
	return w.serve(ctx, answer{}, done.Load, func(ctx context.Context) error {
		var row []string
		for ctx.Err() == nil {
			fetches := consumer.PollFetches(ctx)
			for records := fetches.RecordIter(); !records.Done(); {
				if row, err = decoded(records.Next().Value, row[:0]); err != nil {
					return err
				}
				if err := file.Write(row); err != nil {
					return err
				}
				done.Add(1)
			}
		}
		return nil
	})
}
