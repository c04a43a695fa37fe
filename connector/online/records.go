package online

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/plan"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// outlook is what becomes of the last records of one mapping.
type outlook struct {
	mapping  *router.Compiled
	seen     int64 // records that are the mapping's, undecodable ones included
	skipped  int64 // of these, by its routes
	rejects  map[reject]int64
	refusals flood.Refusals
	alike    map[flood.Refusal]int64
	floods   string // how nearly all are refused alike; "": they are not
	effects  plan.Effects
}

// reject is why a record would be a dead letter.
type reject struct{ code, message string }

// lastRecords reads the last records of topics and says what would become of them.
func (c checker) lastRecords(topics []string) []Check {
	if len(topics) == 0 || c.records == 0 {
		return nil
	}
	limits := flood.NewLimits(c.cfg.DLQ)
	look, skipped := plan.NewLook(c.router), skipsByTopic{}
	outlooks := make([]outlook, len(c.router.Mappings()))
	for i, m := range c.router.Mappings() {
		outlooks[i] = outlook{mapping: m, rejects: map[reject]int64{}, refusals: flood.Refusals{}, alike: map[flood.Refusal]int64{}}
	}
	_, err := ops.RouteSample(c.ctx, c.cfg, c.router, topics, ops.Sample{Limit: c.records * int64(len(topics))},
		func(record *router.Record, routed []router.Routed, err error) {
			if err != nil { // the first mapping of the topic answers for it, as in a sink
				outlooks[c.router.TopicMappings(record.Topic)[0].Index].
					refuse(deadletter.Reason{Stage: deadletter.Decoding, Code: router.CodeDecode, Message: err.Error()}, limits)
			}
			if err == nil {
				look.Take(record, routed)
			}
			skipped.of(record.Topic).take(routed)
			for i := range routed {
				if m := routed[i].Mapping; m != nil {
					outlooks[m.Index].take(&routed[i], limits)
				}
			}
		})
	var checks []Check
	if err != nil {
		checks = append(checks, c.unread(err))
	}
	for i := range outlooks {
		o := &outlooks[i]
		if o.seen > 0 || err == nil && slices.ContainsFunc(o.mapping.Config.Topics, func(t string) bool { return slices.Contains(topics, t) }) {
			checks = append(checks, o.check(c.cfg.DLQ, skipped))
		}
		if text := plan.NotFoundText(look.NotFound(o.mapping)); text != "" {
			checks = append(checks, Check{"fields of " + o.mapping.Name, Warn, text})
		}
		if text := look.OtherKeys(o.mapping); text != "" {
			checks = append(checks, Check{"keys of " + o.mapping.Name, Warn, text})
		}
		for _, n := range o.effects.None() {
			checks = append(checks, Check{"routes of " + o.mapping.Name, Warn, n.String()})
		}
	}
	return append(checks, skipped.checks()...)
}

// unread says why not all of the last records were read.
func (c checker) unread(err error) Check {
	what := "last records"
	switch {
	case errors.Is(err, schemas.ErrSchemaUnavailable):
		return Check{what, NotChecked, "the schema registry does not answer"}
	case c.ctx.Err() != nil:
		return Check{what, NotChecked, fmt.Sprintf("not all of them could be read within %v; `feedsink plan` takes its time", limit)}
	}
	return Check{what, Fail, fmt.Sprintf("%v; %s", err, cluster.Advice(err))}
}

func (o *outlook) take(r *router.Routed, limits flood.Limits) {
	if r.Err != nil {
		o.refuse(writes.RejectReason(r.Err), limits)
		return
	}
	if r.Lane == schemas.Immediate {
		if why, unsent := writes.Unsent(&r.Write); unsent {
			o.refuse(why, limits)
			return
		}
	}
	o.seen++
	if r.Lane == schemas.Skip {
		o.skipped++
	}
	o.effects.Add(r)
}

func (o *outlook) refuse(why deadletter.Reason, limits flood.Limits) {
	o.seen++
	o.rejects[reject{why.Code, why.Plain()}]++
	if limits.Alike == 0 {
		return
	}
	what := flood.RefusalOf(why)
	o.alike[what]++
	o.floods = cmp.Or(o.floods, limits.Flood(what, o.seen, o.refusals.Add(what, o.seen, limits)))
}

// fewest is how many records say something about a share.
const fewest = 10

// flood reports whether the mapping would halt by dlq.flood, or will once more records
// like those have come.
func (o *outlook) flood(share float64) bool {
	for _, n := range o.alike {
		if o.seen >= fewest && float64(n) >= share*float64(o.seen) {
			return true
		}
	}
	return o.floods != ""
}

// mostReasons is how many reasons of dead letters are named.
const mostReasons = 3

func (o *outlook) check(dlq config.DLQ, read skipsByTopic) Check {
	what := "last records of " + o.mapping.Name
	total := int64(0)
	var reasons []reject
	for why, n := range o.rejects {
		total += n
		reasons = append(reasons, why)
	}
	switch {
	case o.seen == 0 && read.count(o.mapping.Config.Topics) > 0:
		return Check{what, NotChecked, fmt.Sprintf("none of the %d read is the mapping's: its when is true for none", read.count(o.mapping.Config.Topics))}
	case o.seen == 0:
		return Check{what, NotChecked, "there are none; come back when its topics have some"}
	case o.skipped == o.seen:
		return Check{what, NotChecked, fmt.Sprintf("all %d read are skipped by its routes", o.seen)}
	case total == 0:
		return Check{what, OK, fmt.Sprintf("%d read, none would be a dead letter", o.seen)}
	}
	slices.SortFunc(reasons, func(a, b reject) int {
		return cmp.Or(cmp.Compare(o.rejects[b], o.rejects[a]), cmp.Compare(a.code, b.code), cmp.Compare(a.message, b.message))
	})
	var named []string
	for _, why := range reasons[:min(len(reasons), mostReasons)] {
		named = append(named, fmt.Sprintf("%d %s (%s)", o.rejects[why], why.code, why.message))
	}
	if left := len(reasons) - mostReasons; left > 0 {
		named = append(named, fmt.Sprintf("%d other reasons", left))
	}
	detail := fmt.Sprintf("%d of %d (%.0f %%) would be dead letters: %s", total, o.seen, 100*float64(total)/float64(o.seen), strings.Join(named, "; "))
	switch {
	case flood.NewLimits(dlq).Alike > 0 && o.flood(dlq.Flood.Share):
		return Check{what, Fail, detail + "; the mapping would halt by dlq.flood: correct the mapping, or the records' producer"}
	case dlq.Topic == "":
		return Check{what, Fail, detail + "; without dlq.topic each of them halts its partition: name one, or correct the mapping"}
	}
	return Check{what, Warn, detail + "; `feedsink plan` says which records"}
}
