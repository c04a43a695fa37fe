package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Files is how a backfill sends its keys by files.
//
// The files hold the newest states of the keys of the span, up to the logs' ends as they
// stand once live traffic is paused. Whatever live traffic has sent until then is among
// that, and what comes later it sends after the import: no row of a file is older
// than what it meets, or stays.
//
// What an import is known by is kept in Kafka while it is on its way. A run that dies leaves
// live traffic paused for some minutes only, so that an older value may come over a newer
// one: the next run waits for the import's end and sends all files again, which hold
// the newer ones.
type Files struct {
	Imports Imports
	Dir     *spool.Dir
	Rows    *spool.Rows
	// Compression and Limit are of the files: GZIP, ZIP or NONE, and how large they may be.
	Compression string
	Limit       spool.Limit
	Rand        *rand.Rand // for names
}

// Imports are one-shot imports into the mapping's table, while a sink runs that has it.
// One goroutine calls them.
type Imports interface {
	// Slots is how many imports a backfill may make today, and how many on a whole day.
	Slots(ctx context.Context) (left, perDay int, err error)
	// Pause returns once live traffic writes nothing to the table, and no import of it is
	// under way. waiting is told what it waits for.
	Pause(ctx context.Context, waiting func(why string)) (Pause, error)
	// TakeSlot counts one of the imports of the day.
	TakeSlot(ctx context.Context) error
	// Launch sends a file. ErrNotStarted says that no import came of it; after any other
	// error one may have.
	Launch(ctx context.Context, op schemas.Op, path string) (execution string, err error)
	// Await returns when the import of so many rows has ended; asked is called from time to time
	// until then. While the service says that it has read fewer it is asked again, for a while;
	// with rows 0 it is not.
	Await(ctx context.Context, execution string, rows int64, asked func()) (ImportEnd, error)
}

// Pause keeps live traffic from writing to the table. One of Resume and Leave is its end.
type Pause interface {
	// Held is an error if live traffic may have gone on since Pause returned.
	Held(ctx context.Context) error
	// Resume lets live traffic go on, unless a person has said otherwise meanwhile.
	Resume(ctx context.Context) error
	// Leave leaves it paused for the minutes that a pause lasts, and returns its end.
	Leave() time.Time
}

// ImportEnd is how an import ended.
type ImportEnd struct {
	Failed  bool
	Unread  bool  // the service has read and loaded fewer rows than the file has: Read
	Read    int64 // rows, with Unread
	InError int64 // rows; -1: the service does not say
}

// ErrNotStarted says that a file was refused, or not sent.
var ErrNotStarted = errors.New("no import was started")

// BackfillFiles is what a backfill by files comes to.
type BackfillFiles struct {
	Rows    int64 `json:"rows"`    // of all files, also of those that are loaded
	Imports int   `json:"imports"` // that are still to be made
	Left    int   `json:"left"`    // of today's imports, those that it may use
	PerDay  int   `json:"perDay"`  // how many it may use on a whole day
	Unsaid  int64 `json:"unsaid"`  // keys that are left, as no row can say their states
	// Why is why it cannot go by files, "" if it can.
	Why string `json:"why,omitempty"`
}

// importUnderWay is an import that may still change the table.
type importUnderWay struct {
	Execution string `json:"execution,omitempty"` // "": its launch was not answered
}

// NeedsCall is why a key is left: no row of a file can say its newest state.
const NeedsCall = "needs_call"

// importRow is the reason code of rows that the service put in error.
const importRow = "import_row"

// fileRows are the rows of a backfill, and where the logs were read up to.
type fileRows struct {
	journal *spool.Journal
	tail    *cluster.Tail
	unsaid  map[uint64]bool // hashes of keys whose states no row can say
	live    map[uint64]bool // of those that a newer record creates, which live traffic sends
}

// drop frees the disk and closes the connection.
func (f *fileRows) drop() {
	f.journal.Drop()
	f.tail.Close()
}

// byFiles sends all keys, in files of one op each.
func (b *Backfill) byFiles(ctx, working context.Context) error {
	if err := b.endUnderWay(ctx); err != nil {
		return err
	}
	rows, err := b.readRows(ctx)
	if err != nil {
		return err
	}
	defer rows.drop()
	need := 1
	for {
		if err := b.untilSlots(ctx, need); err != nil {
			return err
		}
		if need, err = b.importPaused(ctx, working, rows); err != nil || need == 0 {
			return err
		}
	}
}

// endUnderWay waits until the import of a run that died changes nothing any more. Live
// traffic may have gone on beside it: then all is sent again.
func (b *Backfill) endUnderWay(ctx context.Context) error {
	s := &b.state
	switch {
	case s.UnderWay == nil || b.Replay.DryRun:
		return nil
	case s.UnderWay.Execution == "":
		if err := b.Replay.outwait(ctx, []*deadLetter{{tried: true}}); err != nil {
			return err
		}
	default:
		told := func() {
			b.tell(0, fmt.Sprintf("waiting for the end of execution %s of an earlier run", s.UnderWay.Execution))
		}
		if _, err := b.Files.Imports.Await(ctx, s.UnderWay.Execution, 0, told); err != nil {
			return err
		}
	}
	s.UnderWay, s.Loaded = nil, nil
	b.report.Sent, b.report.Untold = 0, 0
	delete(b.report.Refused, importRow)
	return b.save(ctx)
}

// untilSlots returns once the table has so many imports left for a backfill, and live
// traffic has nothing waiting.
func (b *Backfill) untilSlots(ctx context.Context, need int) error {
	for {
		if err := b.rest(ctx, 0); err != nil {
			return err
		}
		left, perDay, err := b.Files.Imports.Slots(ctx)
		switch {
		case err != nil:
			return err
		case left >= need:
			return nil
		case perDay < need:
			return fmt.Errorf("mapping %s: its files take %d imports, and a backfill may use %d a day: raise imports.maxFile, use --reserve, or a shorter span",
				b.Mapping.Name, need, perDay)
		}
		b.tell(0, fmt.Sprintf("waiting for the table's next day: %d imports are needed, and %d of today's may be used; interrupt it if you like, and run the same again then", need, left))
		if err := b.Replay.Wait(ctx, slotWait); err != nil {
			return err
		}
	}
}

// slotWait is how long it takes until the table's slots are looked at again.
const slotWait = time.Minute

// readRows reads the span.
func (b *Backfill) readRows(ctx context.Context) (*fileRows, error) {
	from, total := map[cluster.TopicPartition]int64{}, int64(0)
	for p, sp := range b.state.spans {
		from[p] = sp.From
		total += sp.To - sp.From
	}
	tail, err := b.Replay.Reader.Tail(from)
	if err != nil {
		return nil, err
	}
	name := spool.NewName(b.Mapping.Name, b.Files.Rand)
	rows := &fileRows{
		journal: spool.NewJournal(b.Files.Dir, name+spool.JournalSuffix, spool.SegmentSize, min(total, mostCounted)),
		tail:    tail, unsaid: map[uint64]bool{}, live: map[uint64]bool{},
	}
	read := int64(0)
	err = tail.Until(ctx, b.state.spans, func(rec *deadletter.Record) error {
		if read++; read%4096 == 0 {
			b.tell(0, fmt.Sprintf("reading: %d of %d records", min(read, total), total))
		}
		return b.takeRows(rows, rec)
	})
	if err != nil {
		rows.drop()
		return nil, err
	}
	if b.first {
		b.report.Keys, b.report.About = rows.journal.Distinct, rows.journal.Distinct > exactlyCounted
		b.first = false
	}
	return rows, nil
}

// Keys are counted in a bitmap of two bytes for each, up to so many; few are counted
// exactly.
const (
	mostCounted    = 20_000_000
	exactlyCounted = 4096
)

// takeRows takes up a record. Those beyond the span count for its keys only.
func (b *Backfill) takeRows(rows *fileRows, rec *deadletter.Record) error {
	later := rec.Offset >= b.state.spans[place(rec)].To
	return b.writesOf(rec, b.first && !later, func(routed *router.Routed) error {
		return b.takeRow(rows, routed.Write, later)
	})
}

func (b *Backfill) takeRow(rows *fileRows, w schemas.Write, later bool) error {
	hash := xxhash.Sum64String(w.Key)
	if later && !rows.journal.Has(hash) || rows.live[hash] {
		return nil
	}
	if err := rows.journal.MakeRoom(); err != nil {
		return err
	}
	if w.Op == schemas.Create && later { // it may not have been sent yet, and must find no row
		rows.live[hash] = true
		delete(rows.unsaid, hash)
		b.report.Newer++
		rows.journal.Overrule(b.Files.Rows, &w, true)
		return nil
	}
	if w.Op == schemas.Create { // it was confirmed: a row of the key is its own
		if w.Op = schemas.Upsert; !b.Mapping.Fileable(&w) {
			w.Op = schemas.Create
		}
	}
	if rows.unsaid[hash] && w.Op != schemas.Upsert && w.Op != schemas.Delete {
		return nil // it is only a part of the newest state
	}
	delete(rows.unsaid, hash)
	if b.Mapping.Fileable(&w) {
		entry, err := rows.journal.Add(b.Files.Rows, &w)
		if err == nil {
			rows.journal.Count(entry)
			return nil
		}
		if _, bad := errors.AsType[*schemas.ValueError](err); !bad {
			return err
		}
	}
	if len(rows.unsaid) == mostUnsaid {
		return fmt.Errorf("mapping %s: the states of more than %d keys can be said by calls only: use --by calls", b.Mapping.Name, mostUnsaid)
	}
	rows.unsaid[hash] = true
	rows.journal.Mark(hash)
	rows.journal.Overrule(b.Files.Rows, &w, true)
	return nil
}

// mostUnsaid bounds the memory for keys whose states no row can say.
const mostUnsaid = 1_000_000

// rowsToEnd takes up what the logs have gained until now.
func (b *Backfill) rowsToEnd(ctx context.Context, rows *fileRows) error {
	spans, err := b.present(ctx)
	if err != nil {
		return err
	}
	return rows.tail.Until(ctx, spans, func(rec *deadletter.Record) error { return b.takeRows(rows, rec) })
}

// rowFiles are the files of one op: several if one would be too large.
type rowFiles struct {
	name  string // the op, and which round of it: the same however often they are written
	files []spool.File
}

// seal writes the files, in the order in which they are to be loaded.
func (b *Backfill) seal(ctx context.Context, rows *fileRows) (all []rowFiles, err error) {
	name := spool.NewName(b.Mapping.Name, b.Files.Rand)
	files, err := spool.Seal(ctx, spool.Files{
		Dir: b.Files.Dir, Compression: b.Files.Compression, Name: name, Limit: b.Files.Limit,
		Parts: []spool.Part{{Rows: b.Files.Rows, Journal: rows.journal, Newest: true, Ops: func(schemas.Op) bool { return true }}},
	})
	if err != nil {
		return nil, err
	}
	b.report.Files.Rows = 0
	for _, f := range files {
		if f.Split == 0 {
			op, _, _ := strings.Cut(strings.TrimPrefix(f.Name, name+"."), ".")
			all = append(all, rowFiles{name: op})
		}
		last := &all[len(all)-1]
		last.files = append(last.files, f)
		b.report.Files.Rows += f.Rows
	}
	b.report.Files.Unsaid = int64(len(rows.unsaid))
	if len(rows.unsaid) > 0 && !b.Replay.DryRun {
		b.report.Left[NeedsCall] = int64(len(rows.unsaid))
	}
	return all, nil
}

// importPaused imports as many files as there are slots for while live traffic is paused,
// and returns how many more imports the next op takes; 0: all is sent.
func (b *Backfill) importPaused(ctx, working context.Context, rows *fileRows) (need int, err error) {
	pause, err := b.Files.Imports.Pause(ctx, func(why string) { b.tell(0, why) })
	if err != nil {
		return 0, err
	}
	defer func() {
		if b.state.UnderWay == nil {
			resuming, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeFor)
			defer cancel()
			err = errors.Join(err, pause.Resume(resuming))
			return
		}
		err = fmt.Errorf("%w; live traffic of the table stays paused until %s: run the same again before, or an older value may be over a newer one until you do",
			err, pause.Leave().UTC().Format(time.RFC3339))
	}()
	b.tell(0, "live traffic of the table is paused; reading what it has sent")
	if err := b.rowsToEnd(ctx, rows); err != nil {
		return 0, err
	}
	all, err := b.seal(ctx, rows)
	if err != nil {
		return 0, err
	}
	defer func() {
		for _, one := range all {
			for _, f := range one.files {
				b.Files.Dir.Remove(f.Name)
			}
		}
	}()
	interrupted := ctx.Err
	for i, one := range all {
		if slices.Contains(b.state.Loaded, one.name) {
			continue
		}
		left, perDay, err := b.Files.Imports.Slots(working)
		need := slotsFor(all[i:], perDay)
		if err != nil || left < need {
			return need, err
		}
		for _, f := range one.files {
			if err := interrupted(); err != nil {
				return 0, err
			}
			if err := b.importFile(ctx, working, pause, f); err != nil {
				return 0, err
			}
		}
		if one.files[0].Returns {
			interrupted = working.Err // an interrupt must not leave out what brings rows back
		}
		b.state.Loaded = append(b.state.Loaded, one.name)
		b.report.Done = float64(i+1) / float64(len(all))
		if err := b.save(working); err != nil {
			return 0, err
		}
	}
	b.state.Pos, b.state.Ended = hashes, true
	b.tell(hashes, "")
	return 0, b.save(working)
}

// slotsFor is how many imports the first of the files take, together with those that bring
// the rows back that it deletes: these come on the same day, if a day has as many.
func slotsFor(all []rowFiles, perDay int) (n int) {
	for i := range all {
		n += len(all[i].files)
	}
	if all[0].files[0].Returns && n <= perDay {
		return n
	}
	return len(all[0].files)
}

// resumeFor is how long it is tried to let live traffic go on.
const resumeFor = 30 * time.Second

// importFile imports one file, each step on record before the next. It is not left before
// the import has ended, whatever ctx says: live traffic must not go on beside it.
//
//  1. A slot is taken. A crash after it wastes the slot.
//  2. It is noted that an import may be under way, and once it is launched, which. A crash
//     from here on lets live traffic go on beside it: the next run waits for its end, and
//     sends all files again.
//  3. It has ended, and live traffic was paused all the time: it is noted that none is
//     under way. A crash before the files of the op are all noted as loaded sends them again.
func (b *Backfill) importFile(ctx, working context.Context, pause Pause, f spool.File) error {
	im := b.Files.Imports
	if err := im.TakeSlot(working); err != nil {
		return err
	}
	b.state.UnderWay = &importUnderWay{}
	if err := b.save(working); err != nil {
		b.state.UnderWay = nil // nothing was sent
		return err
	}
	b.tell(0, fmt.Sprintf("sending a file of %d rows to %s", f.Rows, f.Op))
	execution, err := im.Launch(working, f.Op, b.Files.Dir.Path(f.Name))
	if errors.Is(err, ErrNotStarted) {
		b.state.UnderWay = nil
		return errors.Join(err, b.save(working))
	}
	if err != nil {
		return err
	}
	b.state.UnderWay.Execution = execution
	if err := b.save(working); err != nil {
		return err
	}
	end, err := im.Await(working, execution, f.Rows, func() {
		waiting := fmt.Sprintf("execution %s loads %d rows to %s, while live traffic of the table is paused", execution, f.Rows, f.Op)
		if ctx.Err() != nil {
			waiting = "interrupted, and goes on until the import has ended: " + waiting
		}
		b.tell(0, waiting)
	})
	if err != nil {
		return err
	}
	if err := pause.Held(working); err != nil {
		return fmt.Errorf("execution %s: it has ended, but live traffic was not paused all the time: %w", execution, err)
	}
	b.state.UnderWay = nil
	return errors.Join(b.imported(execution, f, end), b.save(working))
}

// imported counts how an import ended.
func (b *Backfill) imported(execution string, f spool.File, end ImportEnd) error {
	if end.Failed {
		return fmt.Errorf("execution %s: the import of %d rows to %s has FAILED; feedsink imports files %s may tell why. Remove the cause and run the same again",
			execution, f.Rows, f.Op, execution)
	}
	if end.Unread {
		return fmt.Errorf("execution %s: the import has FINISHED, but the service has read %d of its %d rows to %s; feedsink verify tells whether they are in the table. Run the same again, which sends them again",
			execution, end.Read, f.Rows, f.Op)
	}
	b.report.Sent += f.Rows - max(end.InError, 0)
	switch {
	case end.InError == 0:
		return nil
	case end.InError < 0:
		b.report.Untold += f.Rows
	default:
		b.report.Refused[importRow] += end.InError
	}
	if len(b.report.Notes) < maxNotes {
		many := fmt.Sprintf("%d of %d rows to %s are in error", end.InError, f.Rows, f.Op)
		if end.InError < 0 {
			many = fmt.Sprintf("the service does not say how many of %d rows to %s are in error", f.Rows, f.Op)
		}
		b.report.Notes = append(b.report.Notes, BackfillNote{
			Record: "execution " + execution, Why: importRow, Message: many + "; feedsink imports files " + execution + " fetches them",
		})
	}
	return nil
}

// foreseeFiles counts the files that would be sent now.
func (b *Backfill) foreseeFiles(ctx context.Context) error {
	rows, err := b.readRows(ctx)
	if err != nil {
		return err
	}
	defer rows.drop()
	if err := b.rowsToEnd(ctx, rows); err != nil {
		return err
	}
	all, err := b.seal(ctx, rows)
	if err != nil {
		return err
	}
	b.report.Files.Imports = 0
	if b.report.Files.Left, b.report.Files.PerDay, err = b.Files.Imports.Slots(ctx); err != nil {
		return err
	}
	for _, one := range all {
		for _, f := range one.files {
			b.Files.Dir.Remove(f.Name)
		}
		if !slices.Contains(b.state.Loaded, one.name) {
			b.report.Files.Imports += len(one.files)
		}
	}
	return nil
}
