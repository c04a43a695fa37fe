package build

import (
	"fmt"
	"time"

	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/pacing"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Pace is how hard the service may be driven, from the configuration.
func Pace(cfg *config.Config) calls.Config {
	service, retry := cfg.Service, cfg.Retry
	return calls.Config{
		Concurrency: calls.Concurrency{Start: service.Concurrency.Start, Max: service.Concurrency.Max},
		Rate:        calls.Rate{Calls: service.Rate.Calls, Per: service.Rate.Per},
		Breaker:     calls.Breaker{Failures: service.Breaker.Failures, OpenFor: service.Breaker.OpenFor},
		Retry:       calls.Retry{Initial: retry.Initial, Max: retry.Max, GiveUpAfter: retry.GiveUpAfter},
	}
}

// Polls of a running execution, from the first to the slowest.
const (
	FirstPoll   = 2 * time.Second
	SlowestPoll = time.Minute
)

// BatchMapping is the batch lane's part of a mapping.
func BatchMapping(m *router.Compiled) files.Mapping {
	im := m.Config.Imports
	key := spool.Key{Section: schemas.Attributes, Name: m.KeyName}
	if m.Table.Custom {
		key.Section = schemas.Properties
	}
	out := files.Mapping{
		Name: m.Name, Table: m.Table, Fingerprint: m.FileFingerprint(),
		Key:         key,
		CSV:         spool.CSV(im.CSV),
		Roll:        files.Roll{Rows: im.Roll.Rows, Bytes: int64(im.Roll.Bytes), Age: im.Roll.Age, At: im.Roll.TimesOfDay()},
		MaxFile:     spool.Limit{Rows: im.MaxFile.Rows, Bytes: int64(im.MaxFile.Bytes)},
		RetryFailed: im.RetryFailed,
		KeepResults: im.KeepResults,
		After:       m.Config.After,
		DualLane:    m.DualLane(),
		Auto:        m.HasAuto(),
		Within:      m.Within(),
		Loads:       map[schemas.Op]files.Load{},
		Bundle:      m.Config.Bundle,
		Entry:       m.EntryName(),
	}
	for i, c := range m.Columns {
		out.Columns = append(out.Columns, spool.Column{
			Header: c.Header, Section: c.Section, Name: c.Name, Kept: m.IgnoresEmpty(schemas.Upsert, i), CreateOnly: c.CreateOnly,
		})
	}
	for op, load := range im.All() {
		out.Loads[op] = files.Load{ETL: load.ETL, Mode: load.Mode}
	}
	return out
}

// BatchMappings are the mappings with files, the calendar of each ETL's table, and the
// slots of each mapping's table.
func BatchMappings(all []*router.Compiled) (zones map[string]*time.Location, mappings []files.Mapping, slotted map[string]*pacing.Table, err error) {
	zones, slotted = map[string]*time.Location{}, map[string]*pacing.Table{}
	for _, m := range tables.Filed(all) {
		im := m.Config.Imports
		zone, err := time.LoadLocation(im.Timezone)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("mapping %s: imports.timezone: %w", m.Name, err)
		}
		mapping := BatchMapping(m)
		mapping.Zone = zone
		mappings = append(mappings, mapping)
		for _, load := range mapping.Loads {
			zones[load.ETL] = zone
		}
		slotted[m.Name] = &pacing.Table{
			Plan: slots.Plan{PerDay: im.SlotsPerDay, Reserve: im.Reserve, Zone: zone, At: mapping.Roll.At, Every: im.Roll.Age},
			Name: m.Table.Qualified(), Label: m.Label, Topic: m.Config.Topics[0], Topics: m.Config.Topics,
		}
	}
	return zones, mappings, slotted, nil
}
