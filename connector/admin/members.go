package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

const (
	// askFor bounds how long a member may take to tell its status.
	askFor = 2 * time.Second
	// askEvery is how old an answer may be that is given again: however many look at the
	// page, members are asked no more often.
	askEvery = 5 * time.Second
	// maxStatus bounds what is read of a member's answer, in bytes; that of a thousand
	// mappings takes about 2 MiB.
	maxStatus = 16 << 20
)

// MemberTables is what the members have, at /members.
type MemberTables struct {
	// Known says that the members' address is configured (admin.webhook.members).
	Known   bool          `json:"known"`
	Members []MemberTable `json:"members"` // this one too, in the order of their addresses
}

// MemberTable is one member and the tables that it has.
type MemberTable struct {
	Address string `json:"address"`          // host:port
	Error   string `json:"error,omitempty"`  // why it could not be asked; nothing else is known then
	Member  string `json:"member,omitempty"` // the name of its machine, which is its pod's
	// Started tells apart members of one machine; it is as in /status.
	Started string `json:"started,omitempty"`
	// Mappings are as its /status has them: those whose tables it has, and those that are
	// halted there.
	Mappings []json.RawMessage `json:"mappings"`
}

// Tables adds GET /members, which asks every member for the tables that it has. The token
// is sent along where it is wanted, to who shows the members' certificate: an address may
// have become a stranger's.
func (m Members) Tables(access Access) Part {
	token := m.token(access)
	var mu sync.Mutex
	var last MemberTables
	var at time.Time
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /members", func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if at.IsZero() || time.Since(at) >= askEvery {
				// What is found out is for the others who ask, too.
				last = m.ask(context.WithoutCancel(r.Context()), token)
				at = time.Now()
			}
			answer(w, http.StatusOK, last, nil)
		})
	}
}

// token is what a member is asked with; nil: with none.
func (m Members) token(access Access) func() (string, error) {
	if access.ProtectReads && m.Certificate != nil {
		return access.Token
	}
	return nil
}

func (m Members) ask(ctx context.Context, token func() (string, error)) MemberTables {
	all := MemberTables{Known: m.Address != "", Members: []MemberTable{}}
	if !all.Known {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	addresses, err := m.addresses(ctx)
	if err != nil {
		all.Members = append(all.Members, MemberTable{Address: m.Address, Error: err.Error(), Mappings: []json.RawMessage{}})
		return all
	}
	all.Members = make([]MemberTable, len(addresses))
	scheme, client := m.direct()
	var asked sync.WaitGroup
	for i, address := range addresses {
		asked.Go(func() {
			table, err := askTables(ctx, client, scheme+address, token)
			if err != nil {
				table = MemberTable{Error: err.Error()}
			}
			table.Address = address
			if table.Mappings == nil {
				table.Mappings = []json.RawMessage{}
			}
			all.Members[i] = table
		})
	}
	asked.Wait()
	return all
}

// addresses are the members', host:port, in their order.
func (m Members) addresses(ctx context.Context) ([]string, error) {
	host, port, err := net.SplitHostPort(m.Address)
	if err != nil {
		return nil, err
	}
	lookup := m.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	hosts, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(hosts))
	for i, host := range hosts {
		all[i] = net.JoinHostPort(host, port)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func askTables(ctx context.Context, client *http.Client, member string, token func() (string, error)) (table MemberTable, err error) {
	var status struct {
		Member   string            `json:"member"`
		Started  string            `json:"started"`
		Mappings []json.RawMessage `json:"mappings"`
	}
	if err := askOne(ctx, client, member+"/status", token, &status); err != nil {
		return table, err
	}
	table = MemberTable{Member: status.Member, Started: status.Started}
	for _, raw := range status.Mappings {
		var mapping struct {
			Halted []string `json:"halted"`
			Day    struct {
				Owned bool `json:"owned"`
			} `json:"day"`
		}
		if json.Unmarshal(raw, &mapping) == nil && (mapping.Day.Owned || len(mapping.Halted) > 0) {
			table.Mappings = append(table.Mappings, raw)
		}
	}
	return table, nil
}

// askOne reads a member's answer into a pointer.
func askOne(ctx context.Context, client *http.Client, from string, token func() (string, error), into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return err
	}
	if token != nil {
		text, err := token()
		if err != nil {
			return err
		}
		if text != "" {
			r.Header.Set("Authorization", "Bearer "+text)
		}
	}
	resp, err := client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok && failed.Timeout() {
		return fmt.Errorf("it has not answered for %v", askFor)
	} else if ok {
		return failed.Err // the address stands beside it
	} else if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized && token == nil:
		return errors.New("it wants the token (admin.protectReads), which members send each other under admin.tls alone")
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %s", resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(into); err != nil {
		return fmt.Errorf("its answer cannot be read: %w", err)
	}
	return nil
}
