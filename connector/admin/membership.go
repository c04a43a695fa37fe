package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Membership is what a member says of itself, at /membership.
type Membership struct {
	Member string            `json:"member"` // the name of its machine, which is its pod's
	Groups map[string]string `json:"groups"` // its member id by consumer group; those that have no place for it are left out
}

// OwnMembership adds GET /membership, by which members learn whether one of them still runs.
func OwnMembership(own func() Membership) Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /membership", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, own(), nil)
		})
	}
}

// strangersEvery is how often an address is asked that has never answered: it may lie behind
// a network policy.
const strangersEvery = time.Minute

// Peers are the members as one of them asks. It belongs to one goroutine.
type Peers struct {
	members Members
	port    string // of all of them
	token   func() (string, error)
	scheme  string
	client  *http.Client
	named   []string // the addresses that were found by name last
	known   map[string]*peer
}

// peer is an address that was asked.
type peer struct {
	asked time.Time
	heard bool // it has answered once
}

// Peers asks at a port those who are at the members' address, if there is one, and others.
func (m Members) Peers(access Access, port string) *Peers {
	p := &Peers{members: m, port: port, token: m.token(access), known: map[string]*peer{}}
	p.scheme, p.client = m.direct()
	return p
}

// Ask asks the members at these hosts, and returns what was answered within two seconds.
func (p *Peers) Ask(ctx context.Context, hosts []string) (answers []Membership) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if p.members.Address != "" {
		if found, err := p.members.addresses(ctx); err == nil {
			p.named = found // else they are where they were
		}
	}
	at := map[string]*peer{}
	for _, address := range p.named {
		at[address] = p.known[address]
	}
	for _, host := range hosts {
		address := net.JoinHostPort(host, p.port)
		at[address] = p.known[address]
	}
	p.known = at
	var asked sync.WaitGroup
	var mu sync.Mutex
	for address, to := range at {
		if to == nil {
			to = &peer{}
			at[address] = to
		} else if !to.heard && time.Since(to.asked) < strangersEvery {
			continue
		}
		to.asked = time.Now()
		asked.Go(func() {
			var said Membership
			if askOne(ctx, p.client, p.scheme+address+"/membership", p.token, &said) != nil {
				return // what is told of a silent member needs what it had
			}
			mu.Lock()
			defer mu.Unlock()
			to.heard = true
			answers = append(answers, said)
		})
	}
	asked.Wait()
	return answers
}
