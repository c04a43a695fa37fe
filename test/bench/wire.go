package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/metrics"
)

// roleArgument is the first argument of a process that plays a role.
const roleArgument = "role"

// roles are what this binary can be besides the bench itself.
var roles = map[string]func(context.Context, *wire) error{
	"broker":    playBroker,
	"service":   playService,
	"sink":      playSink,
	"calls":     playCalls,     // floor of the immediate lane
	"transform": playTransform, // floor of the batch lane
	"forward":   playForward,   // floor of the latency
	"decode":    playDecode,    // both sides of decoding, routing and mapping
	"plain":     playPlain,     // the loop that a team would write
}

// wire is a role's side of its two pipes to the bench. On stdin come the role's
// settings, JSON, then one line for each question; on stdout goes a greeting once
// the role is up, then one answer for each. The end of stdin ends the role, so
// that none outlives the bench.
type wire struct {
	in  *json.Decoder
	out *json.Encoder
	set func(int64) // the role's one knob, nil for none
}

// question asks for an answer, and before that turns the knob if it says to what.
type question struct {
	Set *int64 `json:"set,omitempty"`
}

// answer is what a role says of itself.
type answer struct {
	Address    string  `json:"address,omitempty"` // in the greeting of broker and service
	CPU        float64 `json:"cpu"`               // seconds, user and system, since its start
	RSS        int64   `json:"rss"`               // peak, in bytes
	Resident   int64   `json:"resident"`          // bytes now
	Goroutines int     `json:"goroutines"`        // now
	Files      int     `json:"files"`             // open descriptors
	Allocs     uint64  `json:"allocs"`            // on the heap, since its start
	Done       int64   `json:"done,omitempty"`    // events, of a floor that counts them
}

func play(ctx context.Context, role string) error {
	f, ok := roles[role]
	if !ok {
		return errors.New("no such role")
	}
	return f(ctx, &wire{in: json.NewDecoder(os.Stdin), out: json.NewEncoder(os.Stdout)})
}

// settings reads what the bench wants of the role.
func (w *wire) settings(to any) error {
	if err := w.in.Decode(to); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
}

// serve sends the greeting, and answers while job runs. When the bench hangs up, job's
// context ends and its return is waited for; if job fails, so does the role. done
// is what the answers say is done, nil for a role that does not count.
func (w *wire) serve(ctx context.Context, greeting answer, done func() int64, job func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := w.out.Encode(greeting); err != nil {
		return err
	}
	ended, questions := make(chan error, 1), make(chan error, 1)
	go func() { ended <- job(ctx) }()
	go func() { questions <- w.answers(done) }()
	select {
	case err := <-questions:
		cancel()
		return errors.Join(err, <-ended)
	case err := <-ended:
		if err != nil {
			return err // the process ends, and with it the reading of its stdin
		}
		return <-questions
	}
}

// allocations counts without stopping the process, as runtime.ReadMemStats would.
func allocations() (n uint64) {
	counted := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/tiny/allocs:objects"}}
	metrics.Read(counted)
	for _, c := range counted {
		n += c.Value.Uint64()
	}
	return n
}

func (w *wire) answers(done func() int64) error {
	for {
		var q question
		if err := w.in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if q.Set != nil && w.set != nil {
			w.set(*q.Set)
		}
		a, err := usage()
		if err != nil {
			return err
		}
		a.Allocs = allocations()
		if done != nil {
			a.Done = done()
		}
		if err := w.out.Encode(a); err != nil {
			return err
		}
	}
}
