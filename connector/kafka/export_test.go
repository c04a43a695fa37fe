package kafka

import "context"

// LookAtEnds is what a running source does every fifteen seconds.
func (s *Source) LookAtEnds(ctx context.Context) { s.lookAtEnds(ctx) }

// Config is the source's, with its defaults.
func (s *Source) Config() Config { return s.cfg }

// Shed is how often records were given back.
func (s *Source) Shed() int64 { return s.sheds.Load() }
