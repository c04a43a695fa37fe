// Package contract is what the batcher says of its files and imports, and what it asks of its surroundings:
// of Kafka, of the service, of the other lane, of what paces and counts.
//
// It knows nothing of how any of that is done, nor of what the batcher does with it.
package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// Partition is one assignment of one partition of a topic: a partition that is
// revoked and comes back is another value. Values are compared, so pointers are
// what implements it.
type Partition interface {
	// Claim opens a hold on the partition's records from offset on. It is
	// called inside Append, with a lock held, and must not call back.
	Claim(offset int64) Claim
	// Read is the offset after the last record that was handed on. It must not
	// call back.
	Read() int64
	// String is topic[number].
	String() string
	// Halted is why it is read no further until a person acts; "": it is not halted.
	Halted() string
	// Waits is what of the other lane its records wait for; "": nothing.
	Waits() string
}

// Claim is one generation's hold on the records it took from one assignment of
// one partition: the watermark stays below its first offset until the ledger
// releases it in Confirm.
type Claim interface {
	// Extend adds a record to the hold. Offsets ascend. It is called inside
	// Append, with a lock held, and must not call back.
	Extend(offset int64)
	// Oldest is when the oldest of its records was written, as far as they were read; zero:
	// it is not known. It is called with a lock held.
	Oldest() time.Time
	// Close says that the file takes no more rows. One of a record may be in the next
	// file: then the record is not covered by this one. It is called with a lock held.
	Close()
	// Live reports whether the assignment still exists. It may be called from
	// any goroutine; once false it stays false.
	Live() bool
}

// Import is one file of a generation and the execution that loads it.
type Import struct {
	Mapping     string        `json:"-"`                   // of a bundle the first
	Table       schemas.Table `json:"-"`                   // of a bundle the first
	Fingerprint uint64        `json:"-"`                   // of the mapping that routed its rows, or of the bundle
	Bundle      string        `json:"bundle,omitempty"`    // "": the file is one mapping's
	Members     []Member      `json:"members,omitempty"`   // of a bundle: the entries of the file's ZIP, in the order of their loading
	Part        int           `json:"part,omitzero"`       // 1-based place of the file in its generation: parts before it are loaded
	Parts       int           `json:"parts,omitzero"`      // files of the generation
	Op          schemas.Op    `json:"-"`                   // what its rows do
	Mode        string        `json:"mode,omitempty"`      // import mode of the ETL's definition
	ETL         string        `json:"etl,omitempty"`       // id of the triggered ETL (operation 10)
	File        string        `json:"file,omitempty"`      // name under which the file is pushed
	Rows        int64         `json:"rows,omitzero"`       // without the header
	Bytes       int64         `json:"bytes,omitzero"`      // of the file as it is pushed
	Attempt     int           `json:"attempt,omitzero"`    // 1-based count of the triggers that may have taken one of the table's daily imports
	Execution   string        `json:"execution,omitempty"` // "" until the service named it
	Refused     bool          `json:"-"`                   // for good, when it was sent, or FAILED and would again; it is not loaded and waits for Release
	OnlyTaken   bool          `json:"-"`                   // stands for writes that were taken and that no row can say
	MayBeLoaded bool          `json:"-"`                   // of records that become dead letters: a former owner may have sent their rows
	Adopted     bool          `json:"-"`                   // a former owner sent it, and it is awaited
	Rerouted    bool          `json:"-"`                   // its records are read again under other routes than the file was built under
	OnlyErrors  bool          `json:"-"`                   // of it only records are left whose rows were in error under a former owner, and had no other place
}

// Member is what a bundle's file holds of one mapping. The execution takes a slot
// of its table, whether there are rows or not.
type Member struct {
	Mapping string        `json:"mapping"`
	Table   schemas.Table `json:"-"`
	Rows    int64         `json:"rows"`             // without the header; 0 where a former owner sent the file
	InError int64         `json:"inError,omitzero"` // of these, as far as the output files tell whose they are
}

// Loads are the file's rows by mapping: its members, or the one mapping.
func (imp *Import) Loads() []Member {
	if imp.Members != nil {
		return imp.Members
	}
	return []Member{{Mapping: imp.Mapping, Table: imp.Table, Rows: imp.Rows}}
}

// Ledger keeps what must survive a crash: it writes an import's step into the
// offset commit of every claim's partition and returns once the broker has it.
// An error means that the step is not written and nothing may be sent; the
// batcher tries again as long as all claims are live, so a step may be written
// twice. Calls for one mapping never overlap; calls for different mappings do.
type Ledger interface {
	// Commit replaces the table's entry: an intent while imp.Execution is empty,
	// the running execution after, or that imp is Refused. An intent whose File or Attempt is new takes
	// one of the day's imports of each table that imp loads.
	Commit(ctx context.Context, imp Import, claims []Claim) error
	// Reconcile notes in the entry that the last file's execution has FINISHED and
	// that keys which the other lane wrote too are being reconciled.
	Reconcile(ctx context.Context, imp Import, claims []Claim) error
	// Unread notes that the import is about to be confirmed though partitions are not
	// read to these ends, as their records wait for the other lane's routes: what that
	// lane has written there may be overwritten. It is read as soon as both lanes apply
	// the same routes, and written again.
	Unread(ctx context.Context, imp Import, ends map[Partition]int64) error
	// Confirm releases the claims and removes the entry, in one commit. imp is
	// the generation's last import.
	Confirm(ctx context.Context, imp Import, claims []Claim) error
	// SetApart is Confirm but for claims on partitions that are set apart: these go on
	// to hold their records, of which the ledger notes that they may have been loaded.
	// If there are such claims it reports true, does the same with claims on partitions
	// that again names, and has all of them read again from their committed offsets, as
	// StartOver does.
	SetApart(ctx context.Context, imp Import, claims []Claim, apart, again func(Partition) bool) (left bool, err error)
	// StartOver notes in the entry that imp's file is to be built again and the
	// parts before it are loaded; imp.Execution is the one that FAILED, if that is
	// why, and imp.Refused says that it is not sent before Release. Without a Part it takes the
	// entry off. Where imp is Rerouted, what its file may have overwritten of the other lane's
	// writes is written again. It commits that, and has the partitions read again from their
	// committed offsets. The claims' assignments end soon after: HandOver follows.
	StartOver(ctx context.Context, imp Import, claims []Claim) error
}

// Importer is the service's bulk import. Every method makes one attempt, bounded
// by itself; the batcher retries. Methods run concurrently for different imports.
type Importer interface {
	// Trigger pushes a file to a triggered ETL (operation 10). open gives the
	// content from its start with its size in bytes, at each call;
	// the callee closes what it opened. An empty execution without an error
	// means that the answer named none.
	Trigger(ctx context.Context, etl, fileName string, open func() (io.ReadCloser, int64, error)) (execution string, err error)
	// Results asks for the state of an execution (operation 11).
	Results(ctx context.Context, execution string) (Results, error)
	// OutputFiles writes the result and error files of an execution as they come
	// (operation 12).
	OutputFiles(ctx context.Context, execution string, w io.Writer) error
}

// Status is the state of an execution. Any other word counts as InProgress.
type Status string

// The states of an execution.
const (
	InProgress Status = "IN_PROGRESS"
	Finished   Status = "FINISHED"
	Failed     Status = "FAILED"
)

// Err is nil for the statuses of the interface (operation 11).
func (s Status) Err() error {
	switch s {
	case InProgress, Finished, Failed:
		return nil
	}
	return PublicError(fmt.Sprintf("the service says that the execution's status is %q, which its interface does not have; "+
		"it is asked again until that is FINISHED or FAILED", string(s)))
}

// PublicError is an error whose whole text may be shown anywhere: it quotes no customer's data.
type PublicError string

func (e PublicError) Error() string { return string(e) }

// Results is what the service says about an execution. Counters that it does not
// give are -1.
type Results struct {
	Status Status
	Reason string // the service's words when Failed: they may quote customers' values
	Cause  string // what of them may be said anywhere; "" if nothing
	// SameAgain says that the reason is the file's own: it would fail again.
	SameAgain bool
	// TooLarge says that the reason is the file's size.
	TooLarge bool

	Read, InError, Inserted, Updated, Deleted int64 // rows, when Finished
}

// loaded are the rows that the service counts as such.
func (r Results) loaded() int64 {
	return max(r.Inserted, 0) + max(r.Updated, 0) + max(r.Deleted, 0)
}

// RowsInError are those of a file of so many rows (0: it is not known); -1: it is not known.
func (r Results) RowsInError(rows int64) int64 {
	if r.InError < 0 && rows > 0 && r.loaded() >= rows {
		return 0 // every row is accounted for
	}
	return r.InError
}

// Unread reports whether the service has read and loaded fewer rows than the file has. What it
// counts as read may leave out rows in error, and a header may count as a row. The counters of
// a bundle may be those of one of its tables: of these only none counts.
func (r Results) Unread(imp *Import) bool {
	rows := imp.Rows - max(r.InError, 0)
	told := max(r.Inserted, r.Updated, r.Deleted) >= 0
	return told && r.Read >= 0 && r.Read < rows && r.loaded() < rows && (imp.Bundle == "" || r.Read == 0)
}

// Counters are for the log, without those that the service did not give.
func (r Results) Counters() (told []any) {
	for _, c := range []struct {
		name string
		rows int64
	}{{"read", r.Read}, {"in_error", r.InError}, {"inserted", r.Inserted}, {"updated", r.Updated}, {"deleted", r.Deleted}} {
		if c.rows >= 0 {
			told = append(told, c.name, c.rows)
		}
	}
	return told
}

// ServiceMessage is what the service said last about an import that it did not load, or not
// at once. Its words may quote customers' values: they are for a person who asks,
// and for no log.
type ServiceMessage struct {
	File      string    `json:"file"`
	Execution string    `json:"execution,omitempty"` // "": it was said to the trigger
	At        time.Time `json:"at"`
	Words     string    `json:"words"` // "": a former owner had them; the service can be asked again
}

// Failure is what the batcher asks of an Importer's error, found by errors.As.
// An error that is no Failure is transient and its outcome unknown, except one
// of the local disk, which is met before anything is sent.
type Failure interface {
	error
	Transient() bool           // worth trying again; else the mapping halts
	RetryAfter() time.Duration // earliest next attempt from now, 0 when not said
	Unknown() bool             // the request may have been carried out all the same
	NoSlot() bool              // the table's imports of the day are used up
	Answered() time.Time       // by the service's clock; zero: it did not say
	TooLarge() bool            // the file is larger than the service takes, or a gateway before it: the same one is never taken
	Reason() string            // the service's words, which Error leaves out: they may quote customers' values
	Cause() string             // what of them may be said anywhere; "" if nothing
}

// NotSent is the Failure of a request that was not sent and is made later.
type NotSent struct {
	unsaid
	Why   string
	After time.Duration
}

func (e NotSent) Error() string { return e.Why }

// RetryAfter implements Failure.
func (e NotSent) RetryAfter() time.Duration { return e.After }

// unsaid is what nothing was heard of.
type unsaid struct{}

func (unsaid) Transient() bool     { return true }
func (unsaid) Unknown() bool       { return false }
func (unsaid) NoSlot() bool        { return false }
func (unsaid) Answered() time.Time { return time.Time{} }
func (unsaid) TooLarge() bool      { return false }
func (unsaid) Reason() string      { return "" }
func (unsaid) Cause() string       { return "" }

// Gate paces the imports of a table. It is asked before an open file is sealed
// and before each attempt to trigger; while it says wait, an open file grows. A
// bundle's file goes when it has let each of its mappings go.
// It may be called from several goroutines.
type Gate interface {
	// Wait returns how long to wait before asking again, 0 for: go on. retry tells a further
	// attempt of a sealed file from a new roll. One whose intent was committed does not wait
	// for another slot of the same day; nil: the file is not sealed.
	Wait(mapping string, imp *Import, retry bool) time.Duration
	// Refused is told that the service has no import left for the table on the day of at,
	// by its own clock; zero: it did not say when. It returns how long to wait before Wait is
	// asked again: where that day is over here, until the service's next day.
	Refused(mapping string, at time.Time) (wait time.Duration)
}

// Peer is the other lane: what it has committed, and a call. It reads what that is every few
// seconds. Methods without a context answer at once from what was last read; they may be
// called with a lock held and must not call back.
type Peer interface {
	// Look reads now what the other lane has committed. It makes one attempt.
	Look(ctx context.Context) error
	// Confirmed reports whether that shows the record at offset as confirmed.
	Confirmed(p Partition, offset int64) bool
	// Refused reports whether that shows the record at offset, if it is confirmed, as one that
	// may have become a dead letter, and as one that has, with all of its writes.
	Refused(p Partition, offset int64) (may, is bool)
	// Halted reports whether that shows the partition as halted there, so that what is
	// not confirmed stays so until a person acts.
	Halted(p Partition) bool
	// Ends are the present ends of the mapping's partitions, as offsets. It makes
	// one attempt.
	Ends(ctx context.Context, mapping string) (map[Partition]int64, error)
	// Apply makes the calls that writes of one key mean, in their order. Transient
	// failures it waits out; an error that is not ctx's means that the service
	// refused one, a Failure, or that there is no call for it. nothing are the places
	// of writes that the service says change nothing: a patch of what is not there, a
	// create of what is. Once it returns no call of it is under way.
	Apply(ctx context.Context, mapping string, writes []schemas.Write) (nothing []int, err error)
}

// Calls makes calls in the place of rows of open files.
type Calls interface {
	// Submit asks for a call. It is made once at most: what becomes of a write whose
	// call came to nothing is not for it to decide. It must not call back.
	Submit(Call)
	// Halted reports whether the mapping is halted, so that none of its calls is to start.
	Halted(mapping string) bool
	// Drop forgets the mapping's calls that have not started, whose ends are not told,
	// and returns once those in flight have ended and that is told; or with an error.
	Drop(ctx context.Context, mapping string) error
}

// Call is a call that is asked for.
type Call struct {
	Mapping string
	Route   int
	Spare   bool // it may wait for all others
	Write   schemas.Write
	// Ended hears how it ended, once, from any goroutine: what the service made of the
	// write; or an error, which is final if it is a Failure that is not Transient.
	Ended func(outcome string, err error)
}

// Pending is the hold of one record whose row waits for a call. One of its methods but
// Hold ends it.
type Pending interface {
	// Merged says that its call will have been that of a newer record. Confirm follows.
	Merged()
	// Confirm says that its call has landed. ended hears once, from any goroutine, that the
	// record is confirmed, too.
	Confirm(outcome string, ended func())
	// Hold reports whether a refusal is not final, since the mapping is halted.
	Hold(err error) bool
	// Reject makes the record a dead letter. ended hears once, from any goroutine, that
	// it is one; or that it stays, since there is no other place for it: then it goes
	// on to be held.
	Reject(err error, ended func(stays bool))
	// Claim puts a claim in its place. It is called with a lock held and must not call
	// back.
	Claim() Claim
}

// EachWrite is told of one write of a lane. Its reason is that of a dead letter; "": there
// is none.
type EachWrite func(mapping string, lane schemas.Lane, w *schemas.Write, at spool.At) (reason string)

// Records gives the records back that files were made of, and takes rows that have
// none.
type Records interface {
	// Again reads the records that the claims hold and calls each with every write
	// of imp's mappings that they mean, the batch lane's (those that it has taken from
	// the other one among them) and the other lane's: the partitions one after
	// the other, always in the same order, each in the order of its offsets. The
	// record of a write of the batch lane for which each says a reason is made a dead
	// letter with it, as a row that the service put in error. Again returns once all of those are
	// acknowledged, or with an error after which it may be called again; dead letters
	// may repeat then. Of an Import that is OnlyTaken it gives instead the writes that
	// the routes give to the other lane and that no row can say.
	Again(ctx context.Context, imp Import, claims []Claim, each EachWrite) error
	// Unmatched makes dead letters of their own of rows in error that match no
	// record, and returns once all of them are acknowledged. ErrNoDeadLetter says
	// that a row can never be one. Dead letters may repeat.
	Unmatched(ctx context.Context, imp Import, rows []UnmatchedRow) error
}

// UnmatchedRow is a row in error that matches no record.
type UnmatchedRow struct {
	Mapping string // whose row it is; of a bundle, where nothing tells, the first that it may be
	Key     string // its key cell; "" where it has none
	Row     []byte // the row under its header, as CSV
	Reason  string // why it is a dead letter
}

// ErrNoDeadLetter says that there is no dead-letter topic, or that it does not take
// a row.
var ErrNoDeadLetter = errors.New("the row cannot become a dead letter")

// Floods tells rows in error that are data from those that are a mistake. It counts
// the rows of all of a mapping's imports. It may be called from several goroutines.
type Floods interface {
	// Suspects reports whether so many rows in error of that many would halt the
	// mapping. It counts nothing.
	Suspects(mapping string, rows, inError int64) bool
	// Ended counts the rows of an import that has ended, those in error being such
	// that dead letters follow. If that halts the mapping, or it is halted already,
	// it says why and what ends that, and none may follow before Release.
	Ended(mapping string, rows, inError int64) (reason string)
}

// Observer is told when an execution has ended. It may be called from several
// goroutines and must not block.
type Observer interface {
	// ImportEnded reports a Failed execution, or a Finished one whose rows in error
	// are dead letters by now; took runs from the start of its trigger to the poll
	// that saw the end.
	ImportEnded(imp Import, r Results, took time.Duration)
	// RowsUnmatched reports rows in error for which no record was found. Of which
	// mapping of a bundle they are is not known.
	RowsUnmatched(imp Import, rows int64)
}

// ErrMadeAnew says that there is no profile of the id that was to be deleted. A file
// may have made the key's profile anew, which has another id then, and that is not told.
var ErrMadeAnew = errors.New("there is no profile of this id; if a file has made the key's profile anew, that has another id")

// Parents knows about the records of other mappings whose rows a mapping's rows
// link to, as far as they do not go through files.
type Parents interface {
	// Await returns once everything that was written to the topics of the
	// mapping's parents before the call is confirmed by the other lane, or with
	// ctx's error. Records that but names need not be: their calls may wait for a
	// file themselves.
	Await(ctx context.Context, mapping string, but func() map[reconcile.At]bool) error
}
