package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/connector/deadletter"
)

// ErrFlood ends a run of which nearly all dead letters of a mapping are refused alike: that
// is a mistake and not data, and each would become a new dead letter. They stay as they are.
var ErrFlood = errors.New("replay stopped")

// count notes how one dead letter of a mapping or topic came out of a stage: refused, or
// with nil through it.
func (r *Replay) count(of string, stage deadletter.Stage, why *deadletter.Reason) {
	if r.Flood == nil || r.floods[of] != "" {
		return
	}
	if how := r.Flood(of, stage, why); how != "" {
		r.floods[of] = of + ": " + how
	}
}

// countRead notes what became of the dead letters before any call.
func (r *Replay) countRead(letters []*deadLetter) {
	for _, l := range letters {
		var undecodable *deadletter.Reason
		for _, p := range l.parts {
			if p.mapping == nil {
				undecodable = p.refusal
				continue
			}
			r.count(p.whose(), deadletter.Transforming, p.refusal)
		}
		r.count("topic "+l.Record.Topic, deadletter.Decoding, undecodable)
	}
}

// whose is the mapping that the part is counted for, or the topic if the record
// cannot be decoded.
func (p *part) whose() string {
	if p.mapping == nil {
		return "topic " + p.deadLetter.Record.Topic
	}
	return "mapping " + p.mapping.Name
}

// refusedAlike leaves those dead letters as they are that would add to a flood.
func (r *Replay) refusedAlike(letters []*deadLetter) {
	for _, l := range letters {
		for _, p := range l.parts {
			if p.refusal != nil || p.lost != nil {
				p.flood = r.floods[p.whose()]
			}
		}
	}
}

// flooded is the error of a run that has to stop.
func (r *Replay) flooded() error {
	if len(r.floods) == 0 {
		return nil
	}
	how := strings.Join(slices.Sorted(maps.Values(r.floods)), "; ")
	return fmt.Errorf("%w: %s, which is a mistake and not data (dlq.flood). Those %d letters were not posted again; they and what was not tried stay dead letters. "+
		"Fix the cause (entity, table, fields), then run again. If these letters themselves are wrong, leave them out (--mapping, --reason, --key), or set dlq.flood.records to 0",
		ErrFlood, how, r.report.Left[Flood])
}
