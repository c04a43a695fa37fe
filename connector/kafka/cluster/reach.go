package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
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

// Reach waits until one of the brokers answers, and one at an address that the brokers
// advertise, where everything else is asked. If none does within ten seconds, the error names
// all that were asked.
func (c Connection) Reach(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, reachIn)
	defer cancel()
	seeds := make([]Broker, len(c.Brokers))
	for i, address := range c.Brokers {
		seeds[i].Address = address
	}
	seed, ok := firstOf(seeds, func(b Broker) error { return c.only(b.Address).ping(asking) })
	if !ok {
		return cmp.Or(ctx.Err(), error(&Failure{&unreachable{"no broker can be asked", seeds}}))
	}
	client, err := c.only(seed.Address).asker()
	if err != nil {
		return err
	}
	defer client.Close()
	answer, err := metadata(asking, client, nil)
	if err != nil {
		return failure("brokers of the cluster: %w", c.inTime(asking, err))
	}
	known := make([]Broker, len(answer.Brokers))
	for i, b := range answer.Brokers {
		known[i] = Broker{ID: b.NodeID, Address: net.JoinHostPort(b.Host, fmt.Sprint(b.Port))}
	}
	if _, ok := firstOf(known, func(b Broker) error {
		_, err := client.Broker(int(b.ID)).Request(asking, apiVersions())
		return c.inTime(asking, err)
	}); !ok {
		said := seed.Address + " answers, but no broker at the address that it advertises (advertised.listeners)"
		return cmp.Or(ctx.Err(), error(&Failure{&unreachable{said, known}}))
	}
	return nil
}

// firstOf asks all brokers at once, and returns the first one that answers, or notes why none
// does.
func firstOf(brokers []Broker, ask func(Broker) error) (first Broker, ok bool) {
	answers := make(chan int, len(brokers))
	for i := range brokers {
		go func() {
			brokers[i].Err = ask(brokers[i])
			answers <- i
		}()
	}
	for range brokers {
		if b := brokers[<-answers]; b.Err == nil {
			return b, true
		}
	}
	return Broker{}, false
}

// only is the connection to one of its brokers.
func (c Connection) only(address string) Connection {
	c.Brokers = []string{address}
	return c
}

// unreachable says of each broker why it cannot be asked.
type unreachable struct {
	what    string
	brokers []Broker
}

func (u *unreachable) Error() string {
	said := make([]string, len(u.brokers))
	for i, b := range u.brokers {
		said[i] = b.Address + ": " + b.Err.Error()
	}
	return u.what + ": " + strings.Join(said, "; ")
}

func (u *unreachable) Unwrap() (all []error) {
	for _, b := range u.brokers {
		all = append(all, b.Err)
	}
	return all
}
