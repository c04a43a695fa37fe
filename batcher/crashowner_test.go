package batcher

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/schemas"
)

// effect is one thing that leaves the process. If the plan has the process crash
// there, the call never comes back.
func (o *owner) effect(ctx context.Context, what string, happen func() error) error {
	o.mu.Lock()
	err, done := o.attempt(what, happen)
	o.mu.Unlock()
	if !done {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (o *owner) attempt(what string, happen func() error) (err error, done bool) { //nolint:revive // the error is the effect's
	if o.crashed {
		return nil, false
	}
	n := len(o.effects)
	o.effects = append(o.effects, what)
	if slices.Contains(o.plan.crashes, point{n, false}) {
		o.crash()
		return nil, false
	}
	err = happen()
	if slices.Contains(o.plan.crashes, point{n, true}) {
		o.crash()
		return nil, false
	}
	return err, true
}

func (o *owner) crash() {
	o.crashed = true
	o.story.crashed()
	notify(o.news)
}

func (o *owner) Commit(ctx context.Context, imp contract.Import, claims []Claim) error {
	step := "intend"
	if imp.Execution != "" {
		step = "record"
	}
	return o.effect(ctx, step+" "+fileOf(imp), func() error {
		if imp.Execution == "" {
			attempt := fmt.Sprint(imp.File, " ", imp.Attempt)
			if _, counted := o.slots[attempt]; !counted {
				o.slots[attempt] = time.Now()
			}
			o.checkSlots()
			if got := len(imp.Loads()); got != len(o.mappings) {
				o.t.Errorf("import %s: got slots of %d tables, want %d", imp.File, got, len(o.mappings))
			}
		}
		return o.note(imp, false, claims)
	})
}

func (o *owner) Reconcile(context.Context, contract.Import, []Claim) error {
	o.t.Error("settle: got called, want no table that both lanes write")
	return nil
}

func (o *owner) SetApart(context.Context, contract.Import, []Claim, func(Partition) bool, func(Partition) bool) (bool, error) {
	o.t.Error("set apart: got called, want no table that both lanes write")
	return false, nil
}

func (o *owner) Unread(context.Context, contract.Import, map[Partition]int64) error {
	return errFenced // no partition waits
}

func (o *owner) StartOver(ctx context.Context, imp contract.Import, claims []Claim) error {
	return o.effect(ctx, fmt.Sprintf("start over at %d/%d", imp.Part, imp.Parts), func() error {
		o.story.waited(time.Since(o.since))
		o.story.say("starts over at %d/%d%s", imp.Part, imp.Parts, try(imp))
		o.again = true
		notify(o.news)
		return o.note(imp, true, claims)
	})
}

// note writes the entry of each claim's partition.
func (o *owner) note(imp contract.Import, rebuild bool, claims []Claim) error {
	for _, c := range claims {
		c := c.(*crashClaim)
		if c.a.dead {
			return errFenced
		}
		at := &o.committed[c.a.id]
		*at = commit{offset: c.a.watermark(), entry: &imp, rebuild: rebuild, upTo: max(c.to, at.upTo)}
	}
	return nil
}

func (o *owner) Confirm(ctx context.Context, _ contract.Import, claims []Claim) error {
	return o.effect(ctx, "confirm", func() error {
		for _, c := range claims {
			c := c.(*crashClaim)
			if c.a.dead {
				return errFenced
			}
			c.released = true
		}
		for _, c := range claims {
			a := c.(*crashClaim).a
			o.committed[a.id] = commit{offset: a.watermark()}
			o.service.checkConfirmed(a.id, a.watermark())
		}
		o.story.confirmed(len(o.service.executions), len(o.slots))
		notify(o.news)
		return nil
	})
}

func (o *owner) Trigger(ctx context.Context, _, fileName string, open func() (io.ReadCloser, int64, error)) (id string, err error) {
	body, _, err := open()
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	text := string(content)
	if o.plan.bundle {
		text = o.entriesOf(content)
	}
	rows := int64(strings.Count(text, "\n") - 1)
	if o.plan.maxRows > 0 && rows > o.plan.maxRows {
		o.t.Errorf("%s: got %d rows, want at most %d", fileName, rows, o.plan.maxRows)
	}
	err = o.effect(ctx, "trigger "+opOf(fileName).String(), func() error {
		if o.plan.takes > 0 && rows > o.plan.takes {
			return &refusal{tooLarge: true}
		}
		id = o.service.execute(opOf(fileName), text, o.plan.fails)
		o.story.say("sends %v", opOf(fileName))
		o.checkSlots()
		if o.plan.lost == len(o.service.executions) {
			return errDisconnected
		}
		return nil
	})
	return id, err
}

// entriesOf are the rows of a bundle's ZIP, which has an entry of each mapping with
// the keys of that alone.
func (o *owner) entriesOf(content []byte) string {
	var rows strings.Builder
	for i, e := range archived(o.t, content) {
		header, body, _ := strings.Cut(e.text, "\n")
		if i == 0 {
			rows.WriteString(header + "\n")
		}
		for line := range strings.Lines(body) {
			if want := o.mappings[i].Entry; e.name != want || o.mappingOf(line) != o.mappings[i].Name {
				o.t.Errorf("entry %d: got %s with row %q, want %s with rows of its own", i, e.name, line, want)
			}
		}
		rows.WriteString(body)
	}
	return rows.String()
}

func (o *owner) Results(ctx context.Context, execution string) (r contract.Results, err error) {
	err = o.effect(ctx, "poll", func() error {
		r = o.service.results(execution)
		if r.Status == contract.Failed {
			o.story.say("sees it FAILED")
		}
		return nil
	})
	return r, err
}

func (o *owner) OutputFiles(context.Context, string, io.Writer) error {
	o.t.Error("output files: got asked for them, want no row in error")
	return nil
}

func (o *owner) RowsUnmatched(contract.Import, int64) {}

func (o *owner) ImportEnded(contract.Import, contract.Results, time.Duration) {}

// Wait paces by the slots on record.
func (o *owner) Wait(_ string, _ *contract.Import, retry bool) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var used []time.Time
	for _, at := range o.slots {
		used = append(used, at)
	}
	return o.pace().Wait(time.Now(), used, retry)
}

func (*owner) Refused(string, time.Time) time.Duration { return 15 * time.Minute }

func (c *cluster) pace() slots.Plan {
	return slots.Plan{PerDay: c.plan.perDay, Reserve: 1, Zone: time.UTC, Every: time.Hour}
}

func fileOf(imp contract.Import) string {
	return fmt.Sprintf("%v %d/%d", opOf(imp.File), imp.Part, imp.Parts)
}

func try(imp contract.Import) string {
	if imp.Attempt == 1 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", imp.Attempt)
}

// opOf is the operation that a file's name tells.
func opOf(file string) schemas.Op {
	for _, op := range []schemas.Op{schemas.Delete, schemas.Upsert, schemas.Create, schemas.Patch, schemas.Merge} {
		if strings.Contains(file, "."+op.String()+".") || strings.Contains(file, "."+op.String()+"-") {
			return op
		}
	}
	return 0
}
