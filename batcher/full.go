package batcher

import (
	"context"
	"fmt"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
)

// No file is larger than maxFile. While the table waits for a slot its rows go on coming:
// a generation that would fill such a file takes no further record, the next one does,
// and they go out one after the other. What a generation comes to as a file is an
// estimate. Should the file be too large after all when it is sealed, it is divided
// there, into files of one generation.

// closeFull closes the open generation if it fills a file and the record is not in it
// yet: all rows of a record go out together. It is called with the lock held. Its
// error is the disk's; nothing has changed then.
func (q *tableQueue) closeFull(p Partition, offset int64) error {
	g := q.open
	if g == nil || g.last == p && g.newest == offset {
		return nil
	}
	if rows, bytes := g.size(); !q.fills(g, rows, bytes) {
		return nil
	}
	for _, j := range g.journals {
		if err := j.SetAside(q.anyDualLane() || q.auto()); err != nil {
			return fmt.Errorf("spool of %s: %w", q.name, err)
		}
	}
	g.close()
	q.full, q.open = append(q.full, g), nil
	for _, m := range q.members {
		m.dualLane.keys.Close()
	}
	notify(q.wake)
	return nil
}

// fills reports whether a generation of that size fills a file, so that another record may not fit.
func (q *tableQueue) fills(g *generation, rows, bytes int64) bool {
	most := q.mapping.MaxFile
	// It has no more rows than it was given, and where keys recur no more than were counted and missed.
	if most.Rows > 0 && min(g.entries(), rows+missed(most.Rows))+g.widest > most.Rows {
		return true
	}
	if most.Bytes == 0 || bytes < most.Bytes/2 {
		return false
	}
	if q.ratio == 0 {
		q.sample()
	}
	return q.ratio > 0 && float64(bytes)*q.ratio >= 0.9*float64(most.Bytes)
}

// missed is how many of so many distinct keys the count may miss, and more.
func missed(keys int64) int64 { return max(keys-1024, 0) >> 7 }

// sample measures what rows come to in a file by those of the open generation that are in
// memory.
func (q *tableQueue) sample() {
	if q.open == nil {
		return
	}
	var file, rows int64
	for i, m := range q.members {
		f, r := q.open.journals[i].Sample(m.rows, q.mapping.CSV.Compression)
		file, rows = file+f, rows+r
	}
	if rows > 0 {
		q.ratio = float64(file) / float64(rows)
	}
}

// measure notes what a generation has come to as its largest file. Small ones say little.
func (q *tableQueue) measure(g *generation, files []spool.File) {
	_, rows := g.size()
	var size, largest int64
	for _, f := range files {
		if f.Split == 0 {
			size = 0
		}
		size += f.Bytes
		largest = max(largest, size)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if rows > 0 && largest > q.mapping.MaxFile.Bytes/4 {
		q.ratio = float64(largest) / float64(rows)
	}
}

// mostHalvings is how often files are halved: each try takes an import of the day, and a
// service that refuses a sixteenth refuses for another reason.
const mostHalvings = 4

// halves reports whether a file that the service refused as too large can be halved.
func (q *tableQueue) halves(imp *contract.Import) bool {
	return imp.Rows > 1 && q.halved < mostHalvings
}

// halve has a file that the service refused as too large built again, from its records,
// as files of half its rows at most. So are the queue's files from now on, until the
// process ends: only the configuration knows the limit for good.
func (r *importRun) halve(ctx, send context.Context, imp contract.Import, reason string) error {
	most := (imp.Rows + 1) / 2
	imp.Execution = "" // no reason to halt for who builds it
	r.queue.mu.Lock()
	r.queue.mapping.MaxFile.Rows = most
	r.queue.halved++
	r.queue.mu.Unlock()
	r.log.Warn("the service refused the file as too large: its records are read again and go as files of half its rows at most, as do all of the mapping's until a restart; set imports.maxFile to what the service takes",
		"file", imp.File, "rows", imp.Rows, "bytes", imp.Bytes, "at_most", most, "reason", reason)
	return r.startOver(ctx, send, imp)
}
