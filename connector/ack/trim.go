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

// Gap is records below the log's start that the ledger does not have as confirmed:
// retention has taken them. They are not lost if a file that was sent has them all.
type Gap struct {
	Committed, LogStart int64
	UpTo                int64 // after the last of them; 0: there are none
}

// GapBelow is the gap of a ledger committed at an offset.
func GapBelow(logStart, at int64, done Ranges) Gap {
	if at >= logStart {
		return Gap{}
	}
	open := Ranges{{From: at, To: logStart}}
	for _, r := range done {
		open = open.Remove(r)
	}
	g := Gap{Committed: at, LogStart: logStart}
	if n := len(open); n > 0 {
		g.UpTo = open[n-1].To
	}
	return g
}
