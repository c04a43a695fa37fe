package config

import "fmt"

// mostFloodRecords bounds the memory of what was refused last.
const mostFloodRecords = 1_000_000

// flood checks when a mapping halts whose records are refused alike.
func (r *rules) flood(f Flood) {
	const records, share = "dlq.flood.records", "dlq.flood.share"
	switch {
	case f.Records < 0:
		r.breaks(records, "must not be negative, is "+r.written(records, f.Records), "write 0 for never")
	case f.Records > mostFloodRecords:
		r.breaks(records, fmt.Sprintf("must be at most %d, is %s", mostFloodRecords, r.written(records, f.Records)), "write 0 for never")
	}
	if !(0 < f.Share && f.Share <= 1) { // nor is NaN between them
		r.breaks(share, "must be above 0 and at most 1, is "+r.written(share, f.Share), "0.95 is 95 of 100 records")
	}
}
