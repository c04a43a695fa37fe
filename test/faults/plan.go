package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// fault is one way to break things. strike returns once all is mended again.
type fault struct {
	name        string
	quick, full int // how often
	strike      func(ctx context.Context, w *world) error
}

// sessionTimeout is after how long the group gives a silent member up.
const sessionTimeout = 6 * time.Second

func plan() []fault {
	return []fault{
		{"member killed", 3, 50, killed},
		{"members killed in a row", 1, 5, killedInARow},
		{"member killed amid a trigger", 2, 10, killedAmidTrigger},
		{"member terminated", 1, 10, terminated},
		{"member joins and leaves", 1, 5, joinsAndLeaves},
		{"member frozen past its session", 2, 10, frozen},
		{"member frozen amid a trigger", 1, 5, frozenAmidTrigger},
		{"member cut off from the broker", 1, 10, cutOff},
		{"spool's disk full", 1, 5, diskFull},
		{"service silent", 1, 5, serviceSilent},
		{"service resets connections", 1, 5, serviceDown},
		{"service's answers lost", 1, 5, answersLost},
		{"owner moves while calls are refused", 1, 5, ownerMovesAmidRefusals},
		{"a gateway's pages", 1, 5, gatewayPages},
		{"answers to creates lost", 1, 5, createAnswersLost},
		{"a trigger's answer lost", 2, 10, triggerAnswerLost},
		{"broker silent", 1, 5, brokerSilent},
		{"broker silent past the sessions", 1, 5, brokerSilentLong},
		{"broker killed", 1, 5, brokerKilled},
		{"offsets reset by another tool", 1, 5, offsetsReset},
		{"log cut by the brokers", 1, 5, logCut},
		{"routes change", 8, 50, nil}, // of a sink of their own
		{"clock moved over midnight", 1, 3, overMidnight},
	}
}

func killed(ctx context.Context, w *world) error {
	m := w.anyMember()
	m.kill()
	return m.start(ctx)
}

// killedInARow kills members while what the ones before left is being taken over.
func killedInARow(ctx context.Context, w *world) error {
	for range 4 {
		if err := killed(ctx, w); err != nil {
			return err
		}
		if err := rest(ctx, time.Duration(w.rnd.Int64N(int64(sessionTimeout)))); err != nil {
			return err
		}
	}
	return nil
}

func terminated(ctx context.Context, w *world) error {
	m := w.anyMember()
	if err := m.terminate(); err != nil {
		return err
	}
	return m.start(ctx)
}

// joinsAndLeaves moves partitions without anything having failed.
func joinsAndLeaves(ctx context.Context, w *world) error {
	if err := w.guest.start(ctx); err != nil {
		return err
	}
	if err := w.until(ctx, "the guest is ready", func() (bool, error) { return w.guest.ready(ctx), nil }); err != nil {
		return err
	}
	if err := rest(ctx, 3*time.Second); err != nil {
		return err
	}
	return w.guest.terminate()
}

// frozen stops a member as a starved or migrated machine does: it wakes with all
// it had in memory, while others have taken its place.
func frozen(ctx context.Context, w *world) error {
	m := w.anyMember()
	if err := m.freeze(); err != nil {
		return err
	}
	return w.thawLate(ctx, m)
}

// givenUp notes that the group gives the member up for what begins now.
func (w *world) givenUp(m *member) {
	w.absences = append(w.absences, absence{m.name, time.Now().Add(sessionTimeout)})
}

func (w *world) thawLate(ctx context.Context, m *member) error {
	w.givenUp(m)
	err := rest(ctx, sessionTimeout+4*time.Second)
	if thawErr := m.thaw(); err == nil {
		err = thawErr
	}
	return err
}

// amidTrigger does something to the member whose trigger the service carries out
// next, before that is answered, and returns which one it was.
func (w *world) amidTrigger(ctx context.Context, f func(*member) error) (*member, error) {
	type met struct {
		m   *member
		err error
	}
	first := make(chan met)
	waiting, over := context.WithTimeoutCause(ctx, patience, errors.New("no import was triggered"))
	defer over()
	var once sync.Once
	for _, m := range w.members {
		m.door.onTrigger(func() {
			once.Do(func() {
				select {
				case first <- met{m, f(m)}:
				case <-waiting.Done():
				}
			})
		})
		defer m.door.onTrigger(nil)
	}
	select {
	case <-waiting.Done():
		return nil, context.Cause(waiting)
	case got := <-first:
		return got.m, got.err
	}
}

// killedAmidTrigger makes the one import be repeated that nothing can spare.
func killedAmidTrigger(ctx context.Context, w *world) error {
	m, err := w.amidTrigger(ctx, func(m *member) error {
		m.kill()
		return nil
	})
	if err != nil {
		return err
	}
	return m.start(ctx)
}

// frozenAmidTrigger lets the answer wait for a member that is not the table's
// owner any more when it reads it.
func frozenAmidTrigger(ctx context.Context, w *world) error {
	m, err := w.amidTrigger(ctx, (*member).freeze)
	if err != nil {
		return err
	}
	return w.thawLate(ctx, m)
}

// cutOff leaves a member with the service and without the broker: it could go on
// sending what it has, while others have taken its place.
func cutOff(ctx context.Context, w *world) error {
	m := w.anyMember()
	m.cable.set(silent)
	w.givenUp(m)
	err := rest(ctx, sessionTimeout+4*time.Second)
	if err == nil {
		err = w.until(ctx, "the others have its tables", func() (bool, error) { return w.haveAllTables(ctx, m) })
	}
	m.cable.set(passing)
	return err
}

// haveAllTables reports whether the members but one own every table.
func (w *world) haveAllTables(ctx context.Context, without *member) (bool, error) {
	owned := map[string]int{}
	for _, m := range w.members {
		if m == without {
			continue
		}
		its, err := m.slotsLeft(ctx)
		if err != nil {
			return false, err
		}
		maps.Copy(owned, its)
	}
	return !slices.ContainsFunc(tables, func(t table) bool {
		_, is := owned[t.name]
		return t.files && !is
	}), nil
}

func triggerAnswerLost(ctx context.Context, w *world) error {
	_, err := w.amidTrigger(ctx, func(m *member) error {
		m.door.set(deaf)
		return nil
	})
	for _, m := range w.members {
		m.door.set(passing)
	}
	return err
}

// diskFull lets a member's files grow no further: its writes are refused as on
// a disk without room.
func diskFull(ctx context.Context, w *world) error {
	m := w.anyMember()
	if err := m.limitFiles(true); err != nil {
		return err
	}
	err := rest(ctx, 6*time.Second)
	if liftErr := m.limitFiles(false); err == nil {
		err = liftErr
	}
	return err
}

func serviceSilent(ctx context.Context, w *world) error {
	return w.behindDoors(ctx, silent, 5*time.Second)
}

func serviceDown(ctx context.Context, w *world) error {
	return w.behindDoors(ctx, down, 3*time.Second)
}

func answersLost(ctx context.Context, w *world) error { return w.behindDoors(ctx, deaf, 3*time.Second) }

// behindDoors puts all doors in a mode for a while.
func (w *world) behindDoors(ctx context.Context, mode mode, d time.Duration) error {
	for _, m := range w.members {
		m.door.set(mode)
	}
	err := rest(ctx, d)
	for _, m := range w.members {
		m.door.set(passing)
	}
	return err
}

func brokerSilent(ctx context.Context, w *world) error {
	return w.pauseBroker(ctx, sessionTimeout/2)
}

func brokerSilentLong(ctx context.Context, w *world) error {
	return w.pauseBroker(ctx, sessionTimeout+4*time.Second)
}

func (w *world) pauseBroker(ctx context.Context, d time.Duration) error {
	if err := w.broker.Pause(ctx); err != nil {
		return err
	}
	err := rest(ctx, d)
	if resumeErr := w.broker.Resume(context.WithoutCancel(ctx)); err == nil {
		err = resumeErr
	}
	return err
}

func brokerKilled(ctx context.Context, w *world) error {
	if err := w.broker.Kill(ctx); err != nil {
		return err
	}
	if err := rest(ctx, 2*time.Second); err != nil {
		return err
	}
	return w.broker.Start(ctx)
}
