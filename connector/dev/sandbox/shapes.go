package sandbox

import (
	"cmp"
	"net/http"
)

// Shapes chooses among the answers that the document leaves open. A client that
// works with one of each kind only works by luck: tests run it against all.
type Shapes struct {
	ID       IDShape         // answers of operations 8, 9, 10 and 13
	Updated  UpdatedShape    // answer of operation 5
	Errors   ErrorShape      // bodies of refusals
	NoSlot   NoSlotShape     // refusal of an import beyond the day's limit
	Initial  ExecutionStatus // first answer of operation 11 while an execution runs; "": IN_PROGRESS
	Results  ResultsShape    // integrationResults
	Counters [5]string       // names of the counters read, in error, inserted, updated, deleted; "": the sandbox's own
	Failure  FailureShape    // error of an execution that FAILED
	Output   OutputShape     // operation 12, where there is one file to give
	Reasons  ReasonShape     // columns of an error file
	Webhook  WebhookShape    // payload of a webhook's call
	Status   Statuses        // of refusals
}

// Statuses are the statuses of refusals that the document does not list. One
// below 400 is answered without a body.
type Statuses struct {
	Invalid   int // a body or value that is not taken; 0: 400
	NoRight   int // the key lacks the route's access right; 0: 403
	Paused    int // operation 10 on a paused ETL; 0: 409
	NoProfile int // operation 2 on an id that does not exist; 0: 404
	NoRecord  int // operation 6 on a key that does not exist; 0: 404
	NoOutput  int // operation 12 where there is no output file; 0: 404
}

// IDShape is how an id is answered.
type IDShape string

// The shapes of an id, for the id 12.
const (
	IDString     IDShape = ""            // {"id":"12"}
	IDNumber     IDShape = "number"      // {"id":12}
	IDBareString IDShape = "bare-string" // "12"
	IDBareNumber IDShape = "bare-number" // 12
	IDLocation   IDShape = "location"    // no body, header Location: …/12
	IDNone       IDShape = "none"        // no body and no header
)

// UpdatedShape is how operation 5 says that it is done.
type UpdatedShape string

// The answers of an update.
const (
	UpdatedKey    UpdatedShape = ""       // {"businessKey":"…"}, as operation 4
	UpdatedRecord UpdatedShape = "record" // the whole record, as operation 6
	UpdatedEmpty  UpdatedShape = "empty"  // 204 without a body
)

// ErrorShape is how a refusal explains itself.
type ErrorShape string

// The shapes of a refusal's body.
const (
	ErrorJSON  ErrorShape = ""      // {"status":400,"error":"…"}
	ErrorList  ErrorShape = "list"  // {"errors":[{"code":"…","message":"…"}]}
	ErrorText  ErrorShape = "text"  // plain text
	ErrorEmpty ErrorShape = "empty" // no body
)

// NoSlotShape is how an import beyond the day's limit is refused.
type NoSlotShape string

// The refusals for want of a slot.
const (
	NoSlotUntil  NoSlotShape = ""       // 429, a body that says so and Retry-After until the next day
	NoSlotText   NoSlotShape = "text"   // 429 and a body that says so
	NoSlotHeader NoSlotShape = "header" // 429 without a body, Retry-After until the next day
	NoSlot403    NoSlotShape = "403"    // 403 and a body that says so
)

// ResultsShape is how the counters stand in integrationResults.
type ResultsShape string

// The shapes of integrationResults.
const (
	ResultsFlat   ResultsShape = ""       // {"linesRead":5,…}
	ResultsText   ResultsShape = "text"   // {"linesRead":"5",…}
	ResultsNested ResultsShape = "nested" // {"counters":{"linesRead":5,…}}
	ResultsFiles  ResultsShape = "files"  // [{"fileName":"…","linesRead":5,…}], one for each file
)

// Spellings of the counters beside the sandbox's own, for Shapes.Counters.
var (
	CountersShort = [5]string{"read", "errors", "created", "modified", "removed"}
	CountersSnake = [5]string{"lines_read", "lines_in_error", "lines_inserted", "lines_updated", "lines_deleted"}
	CountersTotal = [5]string{"totalLineCount", "rejectedLineCount", "insertedLineCount", "updatedLineCount", "deletedLineCount"}
)

// FailureShape is how an execution's error states the reason.
type FailureShape string

// The shapes of an error.
const (
	FailureText   FailureShape = ""       // "…"
	FailureObject FailureShape = "object" // {"code":"…","message":"…"}
	FailureList   FailureShape = "list"   // [{"code":"…","message":"…"}]
)

// OutputShape is how a single output file is packed. Two files always come as
// a ZIP.
type OutputShape string

// The packings of an output file.
const (
	OutputCSV  OutputShape = ""
	OutputGzip OutputShape = "gzip"
	OutputZip  OutputShape = "zip"
)

// ReasonShape is how an error file gives the reason, beside the columns of the
// input.
type ReasonShape string

// The columns of a reason.
const (
	ReasonLast  ReasonShape = ""      // …,error
	ReasonCodes ReasonShape = "codes" // …,ERROR_CODE,ERROR_MESSAGE
	ReasonFirst ReasonShape = "first" // lineNumber,reason,…
)

// WebhookShape is what a webhook's call carries.
type WebhookShape string

// The payloads of a webhook.
const (
	WebhookIDs    WebhookShape = ""       // {"eventType":"FINISHED","etlId":"…","executionId":"…","status":"FINISHED"}
	WebhookNested WebhookShape = "nested" // {"event":{"on":…,"type":…},"execution":{"id":12,"etl":{"id":"…"}}}
	WebhookEmpty  WebhookShape = "empty"  // no body
)

// withDefaults fills in what the zero values stand for.
func (s Shapes) withDefaults() Shapes {
	for i, own := range [5]string{"linesRead", "linesInError", "inserted", "updated", "deleted"} {
		s.Counters[i] = cmp.Or(s.Counters[i], own)
	}
	s.Initial = cmp.Or(s.Initial, InProgress)
	s.Status.Invalid = cmp.Or(s.Status.Invalid, http.StatusBadRequest)
	s.Status.NoRight = cmp.Or(s.Status.NoRight, http.StatusForbidden)
	s.Status.Paused = cmp.Or(s.Status.Paused, http.StatusConflict)
	s.Status.NoProfile = cmp.Or(s.Status.NoProfile, http.StatusNotFound)
	s.Status.NoRecord = cmp.Or(s.Status.NoRecord, http.StatusNotFound)
	s.Status.NoOutput = cmp.Or(s.Status.NoOutput, http.StatusNotFound)
	return s
}
