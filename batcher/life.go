package batcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
)

// importRun is one generation on its way.
type importRun struct {
	queue      *tableQueue
	batcher    *Batcher
	log        *slog.Logger
	generation *generation
	known      []*dualLane // of the members, when the import run began: they may be another assignment's by now
	cancelers  cancelers
	ended      chan struct{} // closed once nothing of it is on its way
	hints      chan string
	released   chan struct{}
	files      []spool.File        // not confirmed yet
	kept       bool                // the first of files was refused and stays on disk
	refusals   int                 // of its trigger in a row
	retries    int                 // of it after FAILED
	waited     bool                // the first of files has waited since the gate let it go
	adopted    *Adopted            // what a former owner sent, to be awaited; nil: an import of our own
	undecided  []rejects.Undecided // rows in error of the members' conflicting keys; guarded by queue.mu
	thirds     rejects.Thirds      // creates behind two others in error
	refusedFor []rejects.Refused   // taken writes that the service has refused; guarded by queue.mu
	apart      map[Partition]bool  // partitions that reconciling does without

	// Guarded by queue.mu.
	now    contract.ImportStatus
	halted string
	moved  map[Partition]bool // partitions of rows that were added to the open file again
}

// errLost ends an import run whose assignment is gone: another member has its
// records now and reads them again.
var errLost = errors.New("the partitions were lost")

// cancelers end an import run from outside: stop lets what is on its way come to its
// answer and be written down, cut does not.
type cancelers struct{ stop, cut func() }

func newImportRun(q *tableQueue, g *generation, c cancelers) *importRun {
	r := &importRun{
		queue: q, batcher: q.batcher, log: q.log, generation: g, cancelers: c, ended: make(chan struct{}),
		hints: make(chan string, 1), released: make(chan struct{}, 1),
		undecided: make([]rejects.Undecided, len(q.members)), apart: map[Partition]bool{}, moved: map[Partition]bool{},
		now: contract.ImportStatus{Step: contract.Sealing, Since: time.Now()},
	}
	for _, m := range q.members {
		r.known = append(r.known, m.dualLane)
	}
	return r
}

// run carries the generation to its end, or until ctx ends: with Run or with
// HandOver. send is for what is on its way; it outlives Run by the grace.
func (r *importRun) run(ctx, send context.Context) {
	defer close(r.ended)
	life := r.life
	if r.adopted != nil {
		life = r.adoptedLife
	}
	err := life(ctx, send)
	r.generation.drop()
	for i, file := range r.files {
		if i > 0 || !r.kept {
			r.batcher.spool.Remove(file.Name)
		}
	}
	if errors.Is(err, errLost) {
		r.log.Warn("import abandoned: its partitions were lost; nothing was confirmed, their next owner goes on from the ledger")
		<-ctx.Done() // HandOver follows; no new file of these rows before it
	}
}

// life is the life of an import: seal, intend, trigger, record, await, confirm,
// each step written down before the next begins. Files of one generation go
// through steps 2 to 5 one after the other.
func (r *importRun) life(ctx, send context.Context) error {
	// 1. Seal: the files are complete on disk, their names fixed. After a crash the
	// ledger knows nothing of them: the next start removes them, and reads again.
	imports, err := r.seal(ctx)
	if err != nil {
		return err
	}
	if len(imports) == 0 { // what was in it, the other lane has overruled
		r.generation.asked.Becomes(nil)
		return r.landed(ctx, send, r.withoutFile())
	}
	r.enter(contract.Sealing, imports[0]) // first: who asked may ask again, and is told its name
	r.generation.asked.Becomes(imports)
	if err := r.beforeIntent(ctx, imports[0]); err != nil {
		return err
	}
	for first := true; len(imports) > 0; first = false {
		imp := &imports[0]
		// 2. Intend: the ledger says that this file is about to be sent. After a crash it
		// is not known whether it was. A fenced member stops here, nothing was sent.
		if err := r.intend(ctx, send, imp); err != nil {
			return err
		}
		if first {
			r.findConflicts()
		}
		// 3. Trigger: push the file, the answer names the execution.
		// Only a crash or a lost answer in here can repeat an import.
		begun := time.Now()
		execution, err := r.trigger(send, *imp)
		if err != nil {
			if err := r.refused(ctx, send, imp, err); err != nil {
				return err
			}
			continue
		}
		// 4. Record: the ledger names the execution.
		// From here on a crash repeats nothing: the next owner adopts it.
		if err := r.record(ctx, send, imp, execution); err != nil {
			return err
		}
		// 5. Await: poll until it has ended. A crash changes nothing, the next
		// owner goes on polling.
		results, err := r.outcome(ctx, imp)
		if err != nil {
			return err
		}
		if results.Status == forgotten {
			imp.Attempt++
			continue
		}
		took := time.Since(begun)
		if results.Status == contract.Failed {
			r.batcher.observer.ImportEnded(*imp, results, took)
			if err := r.failed(ctx, send, imp, results); err != nil {
				return err
			}
			continue
		}
		if err := r.reject(ctx, imp, results); err != nil {
			return err
		}
		r.batcher.observer.ImportEnded(*imp, results, r.queue.lasted(took))
		if len(imports) == 1 {
			// 6. Confirm: the offsets move and the ledger's entry goes, in one commit. A crash leaves a
			// finished execution in the ledger: the next owner sees that with one poll.
			if err := r.landed(ctx, send, *imp); err != nil {
				return err
			}
		}
		r.batcher.spool.Remove(imp.File)
		imports, r.files, r.retries = imports[1:], r.files[1:], 0
	}
	return nil
}

// landed ends an import whose files are all loaded: what the other lane wrote
// meanwhile is reconciled, then everything is confirmed.
func (r *importRun) landed(ctx, send context.Context, imp contract.Import) error {
	if err := r.reconcile(ctx, send, imp); err != nil {
		return err
	}
	if err := r.rejectWaiting(ctx); err != nil {
		return err
	}
	if err := r.rejectRefused(ctx, imp); err != nil {
		return err
	}
	if len(r.apart) > 0 {
		return r.confirmRest(ctx, send, imp)
	}
	return r.confirm(send, imp)
}

// withoutFile is the import of a generation without rows, known by its table alone;
// of one that was built again, by what the ledger has of it.
func (r *importRun) withoutFile() contract.Import {
	if r.generation.from.Part > 0 {
		return r.generation.from
	}
	return contract.Import{Mapping: r.queue.mapping.Name, Table: r.queue.mapping.Table, Fingerprint: r.queue.mapping.Fingerprint, Bundle: r.queue.mapping.Bundle}
}

// enter notes the step for Status. One that is tried again goes on since its first try; a trigger
// that is refused is tried again from the intent on.
func (r *importRun) enter(step contract.Step, imp contract.Import) {
	sends := func(s contract.Step) bool { return s == contract.Intending || s == contract.Triggering }
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	last := r.now
	r.now, r.halted = contract.ImportStatus{Import: imp, Step: step, Since: time.Now()}, ""
	again := last.LastErr != nil && sends(last.Step) && sends(step)
	if again {
		r.now.LastErr, r.now.Again = last.LastErr, last.Again
	}
	if (again || last.Step == step) && last.File == imp.File {
		r.now.Since = last.Since
	}
}

// fails shows why a try of the step came to nothing; nil: it did not.
func (r *importRun) fails(err error, again time.Time) {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	r.now.LastErr, r.now.Again = err, again
}

// again waits for the next try of the step, which fails so far.
func (r *importRun) again(ctx context.Context, err error, wait time.Duration) error {
	r.fails(err, time.Now().Add(wait))
	return retry.Sleep(ctx, wait)
}

func (r *importRun) show(now contract.ImportStatus, halted string) {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	r.now, r.halted = now, halted
}

// hint hands over a hint, the queue locked; the older of two that were not looked
// at stays.
func (r *importRun) hint(execution string) {
	select {
	case r.hints <- execution:
	default:
	}
}

// nameExecution hands over the id of a nameless import, if it still waits for one.
func (r *importRun) nameExecution(execution string) {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	if r.nameless() {
		r.hint(execution)
	}
}

// nameless reports whether its execution is under way and has no id yet, the queue locked.
func (r *importRun) nameless() bool {
	return r.now.Step == contract.Triggering || r.now.Step == contract.Naming
}
