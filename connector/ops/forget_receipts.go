package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/forget"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/why"
	"github.com/feedsink/feedsink/connector/words"
)

// counts are of the key's receipts.
type counts struct {
	hashed int // with the secret that is in use
	former int // with another secret
	bare   int // without any hash
	newest time.Time
}

// receipts tells of the key's receipts: those with its hash, and those of the records that
// were found.
func (f *forgetting) receipts(ctx context.Context, found []why.Found) []forget.Place {
	topic := f.cfg.Receipts.Topic
	if topic == "" {
		return nil
	}
	t, err := openReceipts(ctx, f.reader, topic, time.Time{})
	var own receipt.Key
	if keys, unreadable := build.ReceiptKeys(f.cfg, f.Log); unreadable == nil {
		own = keys.Hash(f.mapping.Table, f.Key)
	} else {
		f.report.Notes = append(f.report.Notes, fmt.Sprintf("%v: receipts of records that are no longer in the topics are not counted", unreadable))
	}
	var n counts
	if err == nil {
		err = t.read(ctx, func(int32) bool { return true }, func(r *receipt.Receipt, at time.Time) { n.add(r, at, own, f.mapping.Name, found) })
	}
	if err != nil {
		if ctx.Err() == nil {
			f.report.Notes = append(f.report.Notes, fmt.Sprintf("the receipts in %s were not counted: %v; %s", topic, err, receiptsAdvice(topic, err)))
		}
		return nil
	}
	if n.hashed+n.former+n.bare == 0 {
		return nil
	}
	return []forget.Place{f.hashed(ctx, topic, &n)}
}

// add counts a receipt if it is the key's.
func (n *counts) add(r *receipt.Receipt, at time.Time, own receipt.Key, mapping string, found []why.Found) {
	is := own.ID != "" && r.Key == own
	for i := 0; !is && i < len(found); i++ {
		is = found[i].Has(r, mapping)
	}
	switch {
	case !is:
		return
	case r.Key.ID == "":
		n.bare++
	case own.ID != "" && r.Key.ID != own.ID:
		n.former++
	default:
		n.hashed++
	}
	if at.After(n.newest) {
		n.newest = at
	}
}

// hashed is what the receipts hold, and how they go.
func (f *forgetting) hashed(ctx context.Context, topic string, n *counts) forget.Place {
	p := forget.Place{
		Kind: forget.Receipts, Where: topic, State: forget.Hashed,
		Holds: words.Counted(n.hashed+n.former+n.bare, "receipt") + ": where its records were and how they ended, and a keyed hash of the key",
		Why:   "the hash cannot be undone or tested without the secret in receipts.keyFile",
	}
	if n.hashed+n.former == 0 {
		p.Holds = words.Counted(n.bare, "receipt") + ": where its records were and how they ended; no key, no hash"
		p.Why = "they lead to the key only through the records in the topics"
	}
	if n.former > 0 {
		p.Why += fmt.Sprintf("; %d were hashed with a former secret: once that is destroyed, it cannot be told whose they are", n.former)
	}
	if n.hashed > 0 {
		p.Do = append(p.Do, "rotate the secret: a new one into "+f.cfg.Receipts.KeyFile+", and destroy the old one with its copies; it severs the receipts of all keys")
	}
	switch cleanup, err := f.reader.Cleanup(ctx, topic); {
	case err != nil:
		p.Why += fmt.Sprintf("; how the topic loses records is not known: %v", err)
	case cleanup.Retention > 0:
		p.Why += fmt.Sprintf("; the topic's retention of %s removes them with their segments", forget.Hours(cleanup.Retention))
		p.Until = n.newest.Add(cleanup.Retention).UTC()
	default:
		p.Do = append(p.Do, "give the topic "+topic+" cleanup.policy=delete and a retention.ms: it has none")
	}
	return p
}
