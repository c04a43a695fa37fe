package batcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// world is the service, the ledger and one partition around a batcher, in
// virtual time. Everything that leaves the batcher is a line of the transcript.
type world struct {
	t         *testing.T
	dir       string
	b         *Batcher
	p         *partition
	begun     time.Time
	triggers  chan error         // scripted answers to triggers, then nil
	results   []contract.Results // of the executions in their order, then Finished
	polling   func()             // called during a poll
	nameless  map[int]bool       // triggers that are answered without an id, counted from 1
	hold      string             // step at which to block until the context ends
	slow      time.Duration      // what a trigger takes
	polls     []error            // scripted poll errors, then none
	readsNone bool               // results that count nothing as read mean it
	unfit     error              // what the ledger answers
	outputs   error              // what operation 12 answers
	lenient   bool               // writes may be no rows
	atOnce    int                // rows in error that are looked for in one reading; 0: as ever
	files     string             // the output files that it gives; "-": nothing
	unread    error              // what the log answers once when records are read again
	unposted  error              // why rows that match no record find no place

	mu         sync.Mutex
	lines      []string
	log        []schemas.Write // from offset 100 on
	second     *partition      // whose log is as long
	secondLog  []schemas.Write
	others     map[int]bool // places in log of the other lane's writes
	executions int
	polled     int
	ended      []ended
	stop       func() error
}

// ended is what the observer was told.
type ended struct {
	contract.Import
	contract.Results
	took time.Duration
}

func newWorld(t *testing.T) *world {
	return &world{t: t, dir: t.TempDir(), p: &partition{}, begun: time.Now(), triggers: make(chan error, 100)}
}

// inWorld runs a test in a bubble with a world of its own.
func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}

// each is the same, as a case of a test.
func each(t *testing.T, name string, test func(*testing.T, *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, test) })
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// oneRow starts a batcher whose files are full with one row, and there is one.
func (w *world) oneRow() {
	w.t.Helper()
	m := testMapping()
	m.Roll.Rows = 1
	w.start(m)
	w.append(write(schemas.Upsert, "1"))
}

// start opens and runs a batcher; call it inside a synctest bubble.
func (w *world) start(mappings ...files.Mapping) {
	w.t.Helper()
	w.open(Config{}, mappings...)
	w.run()
}

// beside starts a batcher whose mapping has another lane, too.
func (w *world) beside(peer contract.Peer) {
	w.t.Helper()
	m := testMapping()
	m.DualLane, m.Roll.Age = true, time.Minute
	w.open(Config{Peer: peer}, m)
	w.run()
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.b.Run(ctx) }()
	w.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	w.t.Cleanup(func() { _ = w.stop() })
}

func (w *world) open(cfg Config, mappings ...files.Mapping) {
	w.t.Helper()
	cfg.Dir, cfg.MaxBytes = w.dir, 1<<20
	cfg.Poll, cfg.Retry = retry.Backoff{Initial: 2 * time.Second, Max: time.Minute}, retry.Backoff{Initial: time.Second, Max: 30 * time.Second}
	cfg.Records = w
	cfg.fakes()
	cfg.Grace, cfg.Log = 25*time.Second, slog.New(slog.DiscardHandler)
	b, err := New(cfg, mappings, w, w, w, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.atOnce > 0 {
		b.atOnce = w.atOnce
	}
	w.b = b
}

func (w *world) append(writes ...schemas.Write) {
	w.t.Helper()
	w.log = writes
	for i := range writes {
		err := w.b.Append(w.mappingOf(writes[i].Key), writes[i], w.p, int64(100+i))
		if _, invalid := errors.AsType[*schemas.ValueError](err); invalid && w.lenient {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// add appends one more.
func (w *world) add(mapping string, write schemas.Write, p Partition, offset int64) {
	w.t.Helper()
	check(w.t, w.b.Append(mapping, write, p, offset))
}

func (w *world) release(mapping string) {
	w.t.Helper()
	check(w.t, w.b.Release(mapping))
}

func (w *world) goesOn() {
	w.t.Helper()
	if reason, halted := w.b.Halted("customers"); halted {
		w.t.Errorf("halted: got %q, want it to go on", reason)
	}
}

// mappingOf is the mapping of a write: keys that begin with o are those of orders.
func (w *world) mappingOf(key string) string {
	if strings.HasPrefix(key, "o") {
		return "orders"
	}
	return "customers"
}

var unique = regexp.MustCompile(`\d{8}T\d{6}Z-[a-z2-7]{6}`)

// say adds a line: virtual time since the start, what happened.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Since(w.begun).Round(time.Second)
	w.lines = append(w.lines, unique.ReplaceAllString(fmt.Sprintf("%v "+format, append([]any{at}, args...)...), "*"))
}

func (w *world) StartOver(ctx context.Context, imp contract.Import, _ []Claim) error {
	if err := w.blocked(ctx, "start over"); err != nil {
		return err
	}
	refused := ""
	if imp.Refused {
		refused = "refused "
	}
	w.say("start over %sat %d/%d attempt %d %q", refused, imp.Part, imp.Parts, imp.Attempt, imp.Execution)
	return w.unfit
}

func (w *world) blocked(ctx context.Context, step string) error {
	w.mu.Lock()
	hold := w.hold
	w.mu.Unlock()
	if hold != step {
		return nil
	}
	w.say("%s is held", step)
	<-ctx.Done()
	return ctx.Err()
}

func (w *world) Commit(ctx context.Context, imp contract.Import, claims []Claim) error {
	step := "intend"
	switch {
	case imp.Refused:
		step = "refuse"
	case imp.Execution != "":
		step = "record"
	}
	for _, c := range claims {
		if c.(*claim).closed == 0 {
			w.t.Errorf("%s %s: its file may still take rows of a record", step, imp.File)
		}
	}
	if err := w.blocked(ctx, step); err != nil {
		return err
	}
	return w.wrote(ctx, step, imp, claims)
}

func (w *world) Reconcile(ctx context.Context, imp contract.Import, claims []Claim) error {
	return w.wrote(ctx, "settle", imp, claims)
}

func (w *world) Unread(ctx context.Context, imp contract.Import, ends map[Partition]int64) error {
	return w.wrote(ctx, fmt.Sprintf("leave unread up to %v:", slices.Sorted(maps.Values(ends))), imp, nil)
}

func (w *world) Confirm(ctx context.Context, imp contract.Import, claims []Claim) error {
	if err := w.blocked(ctx, "confirm"); err != nil {
		return err
	}
	return w.wrote(ctx, "confirm", imp, claims)
}

func (w *world) SetApart(ctx context.Context, imp contract.Import, claims []Claim, apart, _ func(Partition) bool) (bool, error) {
	var rest, left []Claim
	for _, c := range claims {
		if of := c.(*claim).p; apart(of) || apart(haltedPartition{of}) {
			left = append(left, c)
		} else {
			rest = append(rest, c)
		}
	}
	if len(left) == 0 {
		return false, w.Confirm(ctx, imp, claims)
	}
	return true, errors.Join(w.wrote(ctx, "confirm", imp, rest), w.wrote(ctx, "set apart", imp, left))
}

func (w *world) wrote(ctx context.Context, step string, imp contract.Import, claims []Claim) error {
	w.mu.Lock()
	unfit := w.unfit
	w.mu.Unlock()
	if err := cmp.Or(unfit, ctx.Err()); err != nil {
		return err
	}
	var spans []string
	for _, c := range claims {
		spans = append(spans, fmt.Sprintf("%d-%d", c.(*claim).from, c.(*claim).to))
	}
	w.say("%s %s %d/%d attempt %d %q holds %s", step, imp.Op, imp.Part, imp.Parts, imp.Attempt, imp.Execution, strings.Join(spans, " "))
	return nil
}

func (w *world) Trigger(ctx context.Context, etl, fileName string, open func() (io.ReadCloser, int64, error)) (string, error) {
	if err := w.blocked(ctx, "trigger"); err != nil {
		return "", err
	}
	body, size, err := open()
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(body)
	if err != nil || int64(len(content)) != size {
		w.t.Errorf("file %s: read %d bytes, %v, want the announced %d", fileName, len(content), err, size)
	}
	select {
	case err = <-w.triggers:
	default:
	}
	if err := retry.Sleep(ctx, w.slow); err != nil {
		return "", err
	}
	if strings.HasSuffix(fileName, ".zip") {
		w.say("trigger %s with %s: %q, %v", etl, fileName, archived(w.t, content), err)
	} else {
		w.say("trigger %s with %s: %q, %v", etl, fileName, unzipped(w.t, content), err)
	}
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.executions++
	if w.nameless[w.executions] {
		return "", nil
	}
	return fmt.Sprint("e", w.executions), nil
}

func (w *world) Results(ctx context.Context, execution string) (contract.Results, error) {
	if err := w.blocked(ctx, "poll"); err != nil {
		return contract.Results{}, err
	}
	w.mu.Lock()
	n := w.polled
	w.polled++
	r := contract.Results{Status: contract.Finished}
	if len(w.results) > 0 && (n >= len(w.polls) || w.polls[n] == nil) {
		r, w.results = w.results[0], w.results[1:]
	}
	if r.Read == 0 && !w.readsNone {
		r.Read = -1 // it does not say
	}
	w.mu.Unlock()
	if n < len(w.polls) && w.polls[n] != nil {
		w.say("poll %s: %v", execution, w.polls[n])
		return contract.Results{}, w.polls[n]
	}
	w.say("poll %s: %s", execution, r.Status)
	if w.polling != nil {
		w.polling()
	}
	return r, nil
}

func (w *world) OutputFiles(ctx context.Context, execution string, to io.Writer) error {
	if err := w.blocked(ctx, "output files"); err != nil {
		return err
	}
	w.mu.Lock()
	answer, files := w.outputs, strings.TrimPrefix(cmp.Or(w.files, "k,error\n1,wrong\n"), "-")
	w.mu.Unlock()
	w.say("output files of %s: %v", execution, answer)
	if answer != nil {
		return answer
	}
	_, err := io.WriteString(to, files)
	return err
}

func (w *world) ImportEnded(imp contract.Import, r contract.Results, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, ended{imp, r, took})
}

// endings are the imports that have ended so far.
func (w *world) endings() []ended {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ended)
}

func (w *world) Again(_ context.Context, imp contract.Import, _ []Claim, each contract.EachWrite) error {
	w.mu.Lock()
	err := w.unread
	w.unread = nil
	w.mu.Unlock()
	for i := range w.log {
		lane := schemas.Batch
		if w.others[i] {
			lane = schemas.Immediate
		}
		if reason := each(w.mappingOf(w.log[i].Key), lane, &w.log[i], spool.At{Offset: int64(100 + i), Of: w.p}); reason != "" {
			w.say("reject %d of %s: %s", 100+i, imp.Execution, reason)
		}
	}
	for i := range w.secondLog {
		if reason := each(w.mappingOf(w.secondLog[i].Key), schemas.Batch, &w.secondLog[i], spool.At{Partition: 1, Offset: int64(100 + i), Of: w.second}); reason != "" {
			w.say("reject second[%d] of %s: %s", 100+i, imp.Execution, reason)
		}
	}
	return err
}

func (w *world) Unmatched(_ context.Context, _ contract.Import, rows []contract.UnmatchedRow) error {
	w.mu.Lock()
	err := w.unposted
	w.mu.Unlock()
	if err != nil {
		return err
	}
	for _, r := range rows {
		w.say("unmatched %s %q: %q: %s", r.Mapping, r.Key, r.Row, r.Reason)
	}
	return nil
}

func (w *world) RowsUnmatched(imp contract.Import, rows int64) {
	w.say("%d rows of %s unmatched", rows, imp.File)
}

// change rewrites the script while the batcher runs.
func (w *world) change(script func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	script()
}

// transcript returns the lines since the last one, once nothing moves any more.
func (w *world) transcript() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}

func (w *world) said(want ...string) {
	w.t.Helper()
	if got := w.transcript(); !slices.Equal(got, want) {
		w.t.Errorf("transcript\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// lastSaid checks how the transcript ends.
func (w *world) lastSaid(want string) {
	w.t.Helper()
	got := w.transcript()
	if len(got) == 0 || !strings.Contains(got[len(got)-1], want) {
		w.t.Errorf("transcript: got %q, want it to end with %q", got, want)
	}
}

// spooled lists the spool's files, without the lock.
func (w *world) spooled() (names []string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" {
			names = append(names, unique.ReplaceAllString(e.Name(), "*"))
		}
	}
	return names
}

func (w *world) wantSpool(want ...string) {
	w.t.Helper()
	if got := w.spooled(); !slices.Equal(got, want) {
		w.t.Errorf("spool: got %q, want %q", got, want)
	}
}

// lose hands over what there is no time to end: the partitions are another member's already.
func lose(b *Batcher, mapping string) {
	ctx, end := context.WithCancel(context.Background())
	end()
	b.HandOver(ctx, mapping)
}
