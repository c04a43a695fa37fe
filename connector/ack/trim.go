package ack

import "fmt"

// Trim compares the ledger with the log. If it speaks of offsets beyond the log's
// end, the brokers have lost records, and may put others at their offsets: from
// where on is not known. Then nothing beyond the committed offset is believed
// any more, so that no record is taken for one that was confirmed, or sent in a
// file, before. Imports stay on the ledger, to be awaited, but cover nothing. The
// commits that follow say the same: the log may have grown past the offsets by the
// next start. cut tells what it says of them; "": it does not.
func (l *Ledger) Trim(at, logEnd int64) (kept int64, cut string) {
	what := ""
	if n := len(l.Done); n > 0 && l.Done[n-1].To > logEnd {
		what = fmt.Sprintf("offsets up to %d are noted as confirmed", l.Done[n-1].To)
	}
	for _, im := range l.Imports {
		if im.UpTo > logEnd {
			what = fmt.Sprintf("file %s of table %s has records up to offset %d", im.File, im.Table, im.UpTo)
		}
	}
	if at > logEnd {
		what = fmt.Sprintf("the committed offset %d is", at)
	}
	if what == "" {
		return at, ""
	}
	kept, l.Done = min(at, logEnd), nil
	for i := range l.Imports {
		l.Imports[i].UpTo = kept
	}
	return kept, fmt.Sprintf("%s beyond the log's end %d", what, logEnd)
}
