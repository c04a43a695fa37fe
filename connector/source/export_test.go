package source

import "context"

// LookAtEnds is what a running source does every fifteen seconds.
func (s *Source) LookAtEnds(ctx context.Context) { s.lookAtEnds(ctx) }
