package cluster

import (
	"context"
	"strings"
	"sync"
	"time"
)

// reachIn is how long a command waits for a broker before it says that none can be reached.
const reachIn = 10 * time.Second

// OpenReader is NewReader for a command that has nothing to do without the brokers: see Reach.
func OpenReader(ctx context.Context, c Connection) (*Reader, error) {
	r, err := NewReader(c)
	if err != nil {
		return nil, err
	}
	if err := r.Reach(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Reach is Connection.Reach of what the reader was made with.
func (r *Reader) Reach(ctx context.Context) error { return r.of.Reach(ctx) }

// Reach asks all brokers of the connection at once, and returns as soon as one answers. If
// none does within ten seconds, the error names all of them.
func (c Connection) Reach(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, reachIn)
	answers := make(chan Broker, len(c.Brokers))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, address := range c.Brokers {
		running.Go(func() { answers <- Broker{Address: address, Err: c.only(address).ping(asking)} })
	}
	none := &unreachable{}
	for range c.Brokers {
		answer := <-answers
		if answer.Err == nil {
			return nil
		}
		none.brokers = append(none.brokers, answer)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Failure{none}
}

// only is the connection to one of its brokers.
func (c Connection) only(address string) Connection {
	c.Brokers = []string{address}
	return c
}

// unreachable says of each broker why it cannot be asked.
type unreachable struct{ brokers []Broker }

func (u *unreachable) Error() string {
	said := make([]string, len(u.brokers))
	for i, b := range u.brokers {
		said[i] = b.Address + ": " + b.Err.Error()
	}
	return "no broker can be asked: " + strings.Join(said, "; ")
}

func (u *unreachable) Unwrap() (all []error) {
	for _, b := range u.brokers {
		all = append(all, b.Err)
	}
	return all
}
