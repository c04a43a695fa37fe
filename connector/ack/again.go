package ack

// After a restart the records that are confirmed beyond the watermark are not sent
// again, but those between them are. One of these may be older than a confirmed one of
// its key: another of its parts, in another table, was not confirmed, or it was to
// become a dead letter. The newer one is then sent again behind it. Until all that was
// confirmed has been read, nothing tells which these are, and what is shown of the
// partition stays as it was: a crash finds the older one unconfirmed as before.

// shown is what the ledger goes on to say for a while.
type shown struct {
	watermark int64
	done      Ranges
}

// Restored reports whether the record at offset was confirmed beyond the watermark
// before the restart, or is older than one that was.
func (t *Tracker) Restored(offset int64) bool { return offset < t.restored }

// SendAgain notes that the record at offset, which is Restored, is sent once more.
func (t *Tracker) SendAgain(offset int64) {
	if t.shown == nil {
		t.shown = &shown{t.Watermark(), t.Confirmed()}
	}
	t.done = t.done.Remove(Range{offset, offset + 1})
}
