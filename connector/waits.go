package connector

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/waits"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// waits is what the lanes wait for now.
func (s *pipeline) waits() []observe.Wait {
	all := []observe.Wait{}
	for _, l := range s.lanes {
		for _, t := range l.source.Conditions() {
			all = append(all, observe.Wait{Cause: t.Cause, Topic: t.Topic, Why: t.Why})
		}
		all = append(all, waits.OfPartitions(l.source.Partitions())...)
		all = append(all, s.others.Waits(l.which, time.Now())...)
		if t, ok := s.deadLetterCondition(l.which); ok {
			all = append(all, observe.Wait{Cause: t.Cause, Topic: t.Topic, Why: t.Why})
		}
		if t, ok := s.receiptCondition(); ok {
			all = append(all, observe.Wait{Cause: t.Cause, Topic: t.Topic, Why: t.Why})
		}
		all = append(append(all, s.schemaWaits()...), s.token.Waits()...)
		switch d := l.delivery.(type) {
		case *callDelivery:
			all = append(all, s.callWaits(d.calls.Waits(), l.filled())...)
		case *fileDelivery:
			all = append(all, s.fileWaits(d)...)
		}
		for i := range all {
			all[i].Lane = cmp.Or(all[i].Lane, l.which.String())
			if all[i].Until.Before(time.Now()) { // what is then is under way
				all[i].Until = time.Time{}
			}
		}
	}
	return all
}

// deadLetterCondition is why the lane's dead letters wait, with their records.
func (s *pipeline) deadLetterCondition(which schemas.Lane) (t cluster.Condition, ok bool) {
	if s.post == nil {
		return t, false
	}
	return writeCondition("dead-letter topic", s.cfg.DLQ.Topic, "dlq.topic", s.post.Err(which.String()))
}

// receiptCondition is why receipts wait, with their records.
func (s *pipeline) receiptCondition() (t cluster.Condition, ok bool) {
	if s.receipts == nil {
		return t, false
	}
	return writeCondition("receipts topic", s.cfg.Receipts.Topic, "receipts.topic", s.receipts.Err())
}

// writeCondition is why a topic that a key of the configuration names is not written.
func writeCondition(what, topic, key string, err error) (t cluster.Condition, ok bool) {
	if err == nil {
		return t, false
	}
	what += " " + topic
	return cluster.ConditionOf(topic, what+" cannot be written", what+" does not exist; create it, or correct "+key, cluster.ToWrite, err), true
}

// unacknowledgedFor is why dead letters of the lane, or receipts, are not acknowledged.
func (s *pipeline) unacknowledgedFor(which schemas.Lane) string {
	if t, ok := s.deadLetterCondition(which); ok {
		return t.Why
	}
	t, _ := s.receiptCondition()
	return t.Why
}

// schemaWaits is why records wait for their schemas. The lanes share the registry.
func (s *pipeline) schemaWaits() []observe.Wait {
	if s.writers == nil {
		return nil
	}
	err := s.writers.Waits()
	if err == nil {
		return nil
	}
	return []observe.Wait{{Cause: waits.Schemas, Why: fmt.Sprintf("a schema cannot be fetched: %v; it is asked for again, and the records that need it wait. "+
		"Check schemaRegistry.url and its login, and that the registry runs", err)}}
}

// waitStatus is why calls wait.
func (s *pipeline) waitStatus(held []calls.Wait) (out []observe.WaitStatus) {
	for _, w := range held {
		opened, _ := s.breakerCauses.Load(w.Table)
		out = append(out, observe.WaitStatus{Table: router.LabelOf(s.router.Mappings(), w.Table), Until: w.Until, Why: waits.OfCalls(w, opened)})
	}
	return out
}

// callWaits are the same. filled says that the lane has no more room, or is empty.
func (s *pipeline) callWaits(held []calls.Wait, filled string) (out []observe.Wait) {
	for i, st := range s.waitStatus(held) {
		w := observe.Wait{Cause: waits.Breaker, Table: st.Table, Until: st.Until, Why: st.Why + waits.Then(held[i])}
		switch again := held[i].Again; {
		case again != nil:
			w.Cause, w.Mapping, w.Why = waits.Retried, again.Mapping, w.Why+filled
		case held[i].Status == http.StatusUnauthorized, held[i].Status == http.StatusForbidden:
			w.Cause = waits.Unauthorized
			w.Why = st.Why + ": the API key is wrong, or lacks the right for the table (service.apiKeyFile or service.apiKey)" + waits.Then(held[i])
		case held[i].Status != 0:
			w.Cause = waits.Throttled
		case held[i].Every > 0:
			w.Cause = waits.Rate
		}
		out = append(out, w)
	}
	return out
}

// fileWaits are what the batch lane's files wait for.
func (s *pipeline) fileWaits(d *fileDelivery) (all []observe.Wait) {
	if t := d.disk.Load(); t != nil && time.Since(t.at) < 3*diskPause {
		all = append(all, observe.Wait{Cause: waits.Disk, Why: "the spool cannot be written: " + t.err.Error() + "; it is tried again every second. Make room on its disk (spool.dir)"})
	}
	files := s.files.Status()
	if s.files.Full() {
		all = append(all, waits.Spool(s.files.SpoolBytes(), int64(s.cfg.Spool.MaxBytes), files, s.pausedFiles, s.pacing.Wait))
	}
	if held := s.service.Held(); held > 0 {
		all = append(all, observe.Wait{Cause: waits.Throttled, Until: time.Now().Add(held), Why: "the service wants no request before (Retry-After)"})
	}
	for _, w := range s.callWaits(append(s.peer.Waits(), s.rowWaits()...), "") {
		if !slices.ContainsFunc(all, func(told observe.Wait) bool { return told.Cause == w.Cause && told.Table == w.Table }) {
			all = append(all, w)
		}
	}
	after := map[string][]string{}
	for _, m := range s.router.Mappings() {
		after[m.Name] = m.Config.After
	}
	for _, st := range files {
		w := observe.Wait{Mapping: st.Mapping}
		switch wait := s.slotWait(st); {
		case wait > 0:
			w.Cause, w.Until, w.Why = waits.Slot, time.Now().Add(wait), "its file waits for one of the table's imports of the day"
		case st.Import != nil && st.Import.Step == contract.Linking:
			w.Cause, w.Why = waits.Parents, "its file waits until what was read before it of "+strings.Join(after[st.Mapping], ", ")+" is in the table"
		case st.Import != nil && st.Import.WaitsFor != "":
			w.Cause, w.Why = waits.OtherLane, "its import is loaded and waits: "+st.Import.WaitsFor
		case st.Import != nil && st.Import.Step == contract.Naming:
			w.Cause, w.Why = waits.Service, "its file was sent, and the answer named no execution: its end is known once the service calls the webhook of ETL "+st.Import.ETL+". Subscribe to it with feedsink webhook create"
		case st.Import != nil && st.Import.LastErr != nil:
			w.Cause, w.Why = waits.OfImport(st.Import)
			w.Until = st.Import.Again
		default:
			continue
		}
		all = append(all, w)
	}
	return all
}

// slotWait is how long the mapping's file waits for nothing but a slot; 0: it does not.
func (s *pipeline) slotWait(st contract.MappingStatus) time.Duration {
	return waits.ForSlot(st, s.pacing.Wait)
}

// slotWait says which records of a topic wait for nothing but a slot of the day.
type slotWait struct {
	open bool // those in the open file, which is complete
	sent bool // those in a file on its way, which is to be sent again
}

// waitingForSlots is, by topic, what waits for a slot. A topic of several mappings
// waits as soon as the file of one of them does: so do its records.
func (s *pipeline) waitingForSlots() map[string]slotWait {
	waits := map[string]slotWait{}
	if s.files == nil {
		return waits
	}
	mappings := map[string]*router.Compiled{}
	for _, m := range s.router.Mappings() {
		mappings[m.Name] = m
	}
	for _, st := range s.files.Status() {
		m := mappings[st.Mapping]
		w := slotWait{
			open: st.Import == nil && st.Halted == "" && s.slotWait(st) > 0,
			sent: st.Import != nil && st.Import.Step == contract.Waiting,
		}
		for _, topic := range m.Config.Topics {
			waits[topic] = slotWait{open: waits[topic].open || w.open, sent: waits[topic].sent || w.sent}
		}
	}
	return waits
}
