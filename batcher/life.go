package batcher

import (
	"context"
	"errors"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
)

// importRun is one generation on its way.
type importRun struct {
	*tableQueue
	generation *generation
	known      []*dualLane // of the members, when the import run began: they may be another assignment's by now
	cancelers  cancelers
	ended      chan struct{} // closed once nothing of it is on its way
	hints      chan string
	released   chan struct{}
	files      []spool.File               // not confirmed yet
	kept       bool                       // the first of files was refused and stays on disk
	refusals   int                        // of its trigger in a row
	retries    int                        // of it after FAILED
	adopted    *Adopted                   // what a former owner sent, to be awaited; nil: an import of our own
	waiting    map[waitingKey]*waitingRow // rows in error of conflicting keys; guarded by line.mu
	refusedFor []refusedWrites            // taken writes that the service has refused; guarded by line.mu
	from       Import                     // of a generation built again: the file to go on with; zero: all of them
	apart      map[Partition]bool         // partitions that reconciling does without

	// Guarded by line.mu.
	now    ImportStatus
	halted string
	moved  map[Partition]bool // partitions of rows that were added to the open file again
}

// errLost ends an import run whose assignment is gone: its records belong to somebody
// else now, who reads them again.
var errLost = errors.New("the partitions were lost")

// cancelers end an import run from outside: stop lets what is on its way come to its
// answer and be written down, cut does not.
type cancelers struct{ stop, cut func() }

func newImportRun(l *tableQueue, g *generation, r cancelers) *importRun {
	return &importRun{
		tableQueue: l, generation: g, known: l.known(), cancelers: r, ended: make(chan struct{}),
		hints: make(chan string, 1), released: make(chan struct{}, 1),
		now: ImportStatus{Step: Sealing, Since: time.Now()},
	}
}

// run carries the generation to its end, or until ctx ends: with Run or with
// Discard. send is for what is on its way; it outlives Run by the grace.
func (f *importRun) run(ctx, send context.Context) {
	defer close(f.ended)
	life := f.life
	if f.adopted != nil {
		life = f.adoptedLife
	}
	err := life(ctx, send)
	f.generation.drop()
	for i, file := range f.files {
		if i > 0 || !f.kept {
			f.batcher.spool.Remove(file.Name)
		}
	}
	if errors.Is(err, errLost) {
		f.log.Warn("import abandoned: its partitions were lost; nothing was confirmed, their next owner goes on from the ledger")
		<-ctx.Done() // Discard follows; no new file of these rows before it
	}
}

// life is the life of an import: seal, intend, trigger, record, await, confirm,
// each step written down before the next begins. Files of one generation go
// through steps 2 to 5 one after the other.
func (f *importRun) life(ctx, send context.Context) error {
	// 1. Seal: the files are complete on disk, their names fixed. A crash leaves
	// files nobody knows of: the next start removes them, the records are read again.
	imports, err := f.seal(ctx)
	if err != nil {
		return err
	}
	if imports, err = f.remaining(ctx, imports); err != nil {
		return err
	}
	if len(imports) == 0 { // what was in it, the other lane has overruled
		return f.landed(ctx, send, f.nothing())
	}
	if err := f.beforeIntent(ctx, imports[0]); err != nil {
		return err
	}
	for first := true; len(imports) > 0; first = false {
		imp := &imports[0]
		// 2. Intend: the ledger says that this file is about to be sent. A crash
		// leaves an intent of which nobody can tell whether it was sent; a member
		// that was fenced stops here, nothing was sent.
		if err := f.intend(ctx, send, imp); err != nil {
			return err
		}
		if first {
			f.contend()
		}
		// 3. Trigger: push the file, the answer names the execution.
		// Only a crash or a lost answer in here can repeat an import.
		begun := time.Now()
		execution, err := f.trigger(send, *imp)
		if err != nil {
			if err := f.refused(ctx, imp, err); err != nil {
				return err
			}
			continue
		}
		// 4. Record: the ledger names the execution.
		// From here on a crash repeats nothing: the next owner adopts it.
		if err := f.record(ctx, send, imp, execution); err != nil {
			return err
		}
		// 5. Await: poll until it has ended. A crash changes nothing, the next
		// owner goes on polling.
		results, err := f.outcome(ctx, imp)
		if err != nil {
			return err
		}
		if results.Status == forgotten {
			imp.Attempt++
			continue
		}
		took := time.Since(begun)
		if results.Status == Failed {
			f.batcher.observer.ImportEnded(*imp, results, took)
			if err := f.failed(ctx, imp, results); err != nil {
				return err
			}
			continue
		}
		if err := f.reject(ctx, imp, results); err != nil {
			return err
		}
		f.batcher.observer.ImportEnded(*imp, results, took)
		if len(imports) == 1 {
			// 6. Confirm: the offsets move and the ledger's entry goes, in one
			// commit. A crash leaves a finished execution in the ledger: the next
			// owner sees that with one poll.
			if err := f.landed(ctx, send, *imp); err != nil {
				return err
			}
		}
		f.batcher.spool.Remove(imp.File)
		imports, f.files, f.retries = imports[1:], f.files[1:], 0
	}
	return nil
}

// beforeIntent waits for the parents and, last, looks at the other lane's ledger.
func (f *importRun) beforeIntent(ctx context.Context, imp Import) error {
	if err := f.parentsFirst(ctx, imp); err != nil {
		return err
	}
	return f.look(ctx)
}

// landed ends an import whose files are all loaded: what the other lane wrote
// meanwhile is settled, then everything is confirmed.
func (f *importRun) landed(ctx, send context.Context, imp Import) error {
	if err := f.reconcile(ctx, send, imp); err != nil {
		return err
	}
	if err := f.rejectWaiting(ctx); err != nil {
		return err
	}
	if err := f.rejectTaken(ctx, imp); err != nil {
		return err
	}
	if len(f.apart) > 0 {
		return f.confirmRest(ctx, send, imp)
	}
	return f.confirm(send, imp)
}

// nothing is the import of a generation without rows, known by its table alone;
// of one that was built again, by what the ledger has of it.
func (f *importRun) nothing() Import {
	if f.from.Part > 0 {
		return f.from
	}
	return Import{Mapping: f.Name, Table: f.Table, Fingerprint: f.Fingerprint, Bundle: f.Bundle}
}

// enter notes the step for Status.
func (f *importRun) enter(step Step, imp Import) {
	f.show(ImportStatus{Import: imp, Step: step, Since: time.Now()})
}

func (f *importRun) show(now ImportStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = now
}

// wake hands over a hint, the line locked; the older of two that were not looked
// at stays.
func (f *importRun) wake(execution string) {
	select {
	case f.hints <- execution:
	default:
	}
}

// adopt hands over the id of a nameless import, if it still waits for one.
func (f *importRun) adopt(execution string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.Step == Naming {
		f.wake(execution)
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error { return retry.Sleep(ctx, d) }

// backoff is the delay before attempt n+1, n counted from 0, and never below least.
func (f *importRun) backoff(b retry.Backoff, n int, least time.Duration) time.Duration {
	return b.Next(n+1, least, f.batcher.rnd.late)
}
