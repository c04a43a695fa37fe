package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	routesGroup   = "routes"
	routesLetters = "routes.dlq"
)

// routesSink is a sink whose lanes are processes of their own, two of each, that
// take new routes one after the other.
type routesSink struct {
	w      *world
	rnd    *rand.Rand
	lanes  map[string][]*member
	events *routedEvents
	load   *load

	now, former *routesFile
	whole       int             // events that came before every process had a mapping of copies
	letters     map[string]bool // by number
	read        int64           // dead letters
	wrong       map[name]bool   // rows that were not right when last looked at
	say         func(format string, args ...any)
}

// flipsAtOnce is after how many flips all is judged.
const flipsAtOnce = 10

// changeRoutes flips the routes of a sink under load, and kills its members.
func (w *world) changeRoutes(ctx context.Context, f fault, o options, j *judge) (l line, err error) {
	l.fault = f.name
	times := f.full
	if o.quick {
		times = f.quick
	}
	r, err := w.openRoutes(ctx, o)
	if err != nil {
		return l, err
	}
	defer func() {
		err = errors.Join(err, r.close())
		j.passOver()
	}()
	for l.times < times {
		r.load.resume()
		for n := 0; n < flipsAtOnce && l.times < times; n++ {
			l.times++
			if err := r.flip(ctx, l.times); err != nil {
				return l, fmt.Errorf("flip %d: %w", l.times, err)
			}
		}
		if l.times == times { // with every mapping, so that every table is judged
			whole := anyFile(r.rnd, true)
			if err := r.giveAll(ctx, whole); err != nil {
				return l, err
			}
		}
		if err := r.settle(ctx, &l); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (w *world) openRoutes(ctx context.Context, o options) (*routesSink, error) {
	events := newRoutedEvents(o.seed)
	r := &routesSink{
		w: w, rnd: rand.New(rand.NewPCG(o.seed, 2)), lanes: map[string][]*member{}, events: events,
		load: startLoad(ctx, w.client, events.next, max(1, o.rate/2)), letters: map[string]bool{}, wrong: map[name]bool{},
		say: newJudge(w).say,
	}
	for _, lane := range []string{immediate, batch} {
		for _, n := range []string{"1", "2"} {
			name := lane + n
			door, err := newDoor(name, w.service, &calls{})
			if err != nil {
				return nil, errors.Join(err, r.close())
			}
			log, err := newLog(o.logs, name)
			if err != nil {
				return nil, errors.Join(err, door.close(), r.close())
			}
			r.lanes[lane] = append(r.lanes[lane], &member{
				name: name, binary: w.binary(), config: filepath.Join(w.dir, name+".yaml"), lane: lane, door: door, log: log,
				diary: &diary{onRecord: map[string]bool{}},
				env: []string{
					w.clock.env(), "BROKERS=" + w.broker.Addr(), "SERVICE=" + door.url, "API_KEY=" + apiKey, "SPOOL=" + filepath.Join(w.dir, name),
				},
			})
		}
	}
	if err := r.giveAll(ctx, anyFile(r.rnd, true)); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.former = r.now
	return r, nil
}

func (r *routesSink) close() (err error) {
	r.load.end()
	for _, m := range r.all() {
		m.kill()
		err = errors.Join(err, m.door.close(), m.log.Close())
	}
	return err
}

func (r *routesSink) all() []*member { return slices.Concat(r.lanes[immediate], r.lanes[batch]) }

// flip rolls new routes out: the lanes one after the other, their members one
// after the other, with the immediate lane's way to the service cut at times and
// a member killed at times. One in five is a way back to the routes before, and
// one in five is taken back before the second lane has it.
func (r *routesSink) flip(ctx context.Context, number int) error {
	next := anyFile(r.rnd, false)
	if r.rnd.IntN(5) == 0 {
		next = r.former
	}
	lanes := []string{immediate, batch}
	r.rnd.Shuffle(2, func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
	takeBack := r.rnd.IntN(5) == 0
	fmt.Fprintf(os.Stderr, "  flip %d at event %d, %s first, taken back %v: %s\n", number, r.load.soFar(), lanes[0], takeBack, next.name)
	cut := r.rnd.IntN(3) == 0
	if cut {
		r.doors(immediate, down)
	}
	if err := r.give(ctx, lanes[0], next); err != nil {
		return err
	}
	if err := r.restOrKill(ctx, lanes); err != nil {
		return err
	}
	tried := next
	if takeBack {
		next, lanes[1] = r.now, lanes[0]
	}
	if err := r.give(ctx, lanes[1], next); err != nil {
		return err
	}
	r.doors(immediate, passing)
	r.taken(next, tried)
	return r.restOrKill(ctx, lanes)
}

// giveAll has every member take a file, and waits for nothing.
func (r *routesSink) giveAll(ctx context.Context, f *routesFile) error {
	for _, lane := range []string{immediate, batch} {
		if err := r.give(ctx, lane, f); err != nil {
			return err
		}
	}
	r.taken(f, f)
	return nil
}

// taken notes that every process has a file, and some had another one meanwhile.
// Without its mapping the table of copies has missed events.
func (r *routesSink) taken(f, tried *routesFile) {
	if r.now == nil || !r.now.mappings[copies] || !tried.mappings[copies] {
		r.whole = r.load.soFar()
	}
	if f != r.now {
		r.now, r.former = f, r.now
	}
}

// give has the members of a lane run with a file, one after the other, if it has
// a use for the lane. What ran before ends, in order or not.
func (r *routesSink) give(ctx context.Context, lane string, f *routesFile) error {
	for _, m := range r.lanes[lane] {
		if err := r.end(ctx, m); err != nil {
			return err
		}
		if err := os.WriteFile(m.config, []byte(f.text), 0o600); err != nil {
			return err
		}
		if f.uses(lane) {
			if err := m.start(ctx); err != nil {
				return err
			}
		}
		if err := rest(ctx, time.Duration(r.rnd.Int64N(int64(1500*time.Millisecond)))); err != nil {
			return err
		}
	}
	return nil
}

// end ends a member, half the time as a crash does.
func (r *routesSink) end(ctx context.Context, m *member) error {
	if err := m.alive(); err != nil {
		return err
	}
	if r.rnd.IntN(2) == 0 && m.ready(ctx) {
		return m.terminate()
	}
	m.kill()
	return nil
}

// restOrKill lets some seconds pass, in which a member may be lost.
func (r *routesSink) restOrKill(ctx context.Context, lanes []string) error {
	if err := rest(ctx, time.Duration(r.rnd.Int64N(int64(3*time.Second)))); err != nil {
		return err
	}
	m := r.lanes[lanes[r.rnd.IntN(2)]][r.rnd.IntN(2)]
	if r.rnd.IntN(3) > 0 || m.cmd == nil {
		return nil
	}
	if err := m.alive(); err != nil {
		return err
	}
	m.kill()
	return m.start(ctx)
}

func (r *routesSink) doors(lane string, mode mode) {
	for _, m := range r.lanes[lane] {
		m.door.set(mode)
	}
}

// alive says what a member that ended by itself ended with.
func (m *member) alive() error {
	if m.cmd == nil {
		return nil
	}
	select {
	case <-m.ended:
		return fmt.Errorf("member %s has ended by itself: %w", m.name, errors.Join(errors.New("exit"), m.result))
	default:
		return nil
	}
}
