package ack

import "slices"

// mostRefused is how many ranges of refused records a ledger has.
const mostRefused = 32

// Refuse notes that the record at offset is about to be confirmed as a dead letter. What is
// below the watermark matters no more. Only a range of one offset says that all of the record's
// writes are refused: one that is not alone is noted with the next one.
func (l *Ledger) Refuse(offset, watermark int64, alone bool) {
	to := offset + 2
	if alone {
		to = offset + 1
	}
	left := slices.DeleteFunc(l.Refused, func(r Range) bool { return r.To <= watermark }) // whole: what is left of one would say more
	l.Refused = left.Add(Range{offset, to}).atMost(mostRefused)
}

// atMost is a set of n ranges at most that has all of rs: the narrowest gaps are closed.
func (rs Ranges) atMost(n int) Ranges {
	for len(rs) > n {
		narrowest := 1
		for i := 2; i < len(rs); i++ {
			if rs[i].From-rs[i-1].To < rs[narrowest].From-rs[narrowest-1].To {
				narrowest = i
			}
		}
		rs = rs.Add(Range{rs[narrowest-1].To, rs[narrowest].From})
	}
	return rs
}

func (r *reader) refused() (rs Ranges) {
	if len(r.rest) > 0 {
		rs = r.ranges(0)
	}
	return rs
}
