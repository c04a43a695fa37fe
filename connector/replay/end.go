package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
)

// outcome is what became of the dead letter, judged by all of its parts.
func (l *deadLetter) outcome() (outcome Outcome, why, message string) {
	outcome = Superseded
	for _, p := range l.parts {
		switch {
		case p.unanswered != nil:
			return Left, Unanswered, p.unanswered.Error()
		case p.flood != "":
			return Left, Flood, p.flood
		case p.unposted != nil:
			return Left, NotPosted, p.unposted.Error()
		case p.stuck != "":
			return Left, NeedsImport, p.stuck
		case p.refusal != nil:
			outcome, why, message = Refused, p.refusal.Code, p.refusal.Plain()
		case !p.replaced && outcome != Refused:
			outcome = Applied
		}
	}
	return outcome, why, message
}

// end posts what failed again, and marks the dead letters as done unless they are
// left.
func (r *Replay) end(ctx context.Context, letters []*deadLetter) error {
	r.refusedAlike(letters)
	var posts []post
	for _, l := range letters {
		if outcome, _, _ := l.outcome(); outcome == Left {
			continue
		}
		for _, p := range l.parts {
			if p.lost != nil {
				r.Log.Warn("the newest record of a row was sent again and refused; it is a dead letter now", "record", place(p.changed).String(),
					"offset", p.changed.Offset, "mapping", p.mapping.Name, "code", p.lost.Code)
				posts = append(posts, p.letterOf(p.changed, *p.lost, 0))
			}
			if p.refusal != nil {
				posts = append(posts, p.letterOf(l.Record, *p.refusal, l.Attempts+1))
			}
		}
	}
	if err := r.post(ctx, posts); err != nil {
		return err
	}
	for _, l := range letters {
		outcome, why, message := l.outcome()
		if outcome != Left {
			r.marks.done(l.Partition, l.Offset)
		}
		r.report.note(l, outcome, why, message)
	}
	return nil
}

// post is a record that becomes a new dead letter.
type post struct {
	part   *part
	record *deadletter.Record
	letter deadletter.Reason
	err    error
}

func (p *part) letterOf(rec *deadletter.Record, l deadletter.Reason, attempts int) post {
	l.Attempts, l.Lane = attempts, p.deadLetter.Lane
	if p.mapping != nil {
		l.Mapping, l.Table = p.mapping.Name, p.mapping.Label
	}
	return post{part: p, record: rec, letter: l}
}

// post returns once Kafka has, or refuses, each of the new dead letters.
func (r *Replay) post(ctx context.Context, posts []post) error {
	ends := make(chan post, len(posts))
	for _, p := range posts {
		r.Post.Send(p.record, p.letter, func(err error) {
			p.err = err
			ends <- p
		})
	}
	patience := time.NewTimer(r.GiveUp)
	defer patience.Stop()
	for range posts {
		select {
		case p := <-ends:
			if p.err != nil {
				p.part.unposted = p.err
			}
			patience.Reset(r.GiveUp)
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("%s: the brokers did not take a letter for %v; run again to go on", r.Topic, r.GiveUp)
		}
	}
	return nil
}
