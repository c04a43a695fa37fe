package kafka

import "github.com/feedsink/feedsink/connector/ack"

// Upgrade brings a topic's ledger up to date that a former version may have written.
type Upgrade func(topic string, l *ack.Ledger)

// decode reads a ledger of the topic.
func (s *Source) decode(topic string, c commit) (ack.Ledger, error) {
	l, err := ack.Decode(c.metadata, c.offset)
	if err == nil && s.cfg.Upgrade != nil {
		s.cfg.Upgrade(topic, &l)
	}
	return l, err
}
