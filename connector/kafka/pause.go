package kafka

import "time"

// applyPauses pauses fetching of partitions that are halted, nearly out of
// ledger room, at rest after an error, or still have records the handler did
// not take or that were given back.
func (s *Source) applyPauses() {
	for _, p := range s.Partitions() {
		if p.shed > 0 && p.memory.fits(p.shed, p.held.Load()) {
			p.shed = 0
		}
		pause := p.wantsPause() || p.shed > 0 || len(p.backlog) > 0 || time.Now().Before(p.rest)
		if pause == p.paused {
			continue
		}
		p.paused = pause
		which := map[string][]int32{p.Topic: {p.ID}}
		if pause {
			s.client.PauseFetchPartitions(which)
		} else {
			s.client.ResumeFetchPartitions(which)
		}
	}
}
