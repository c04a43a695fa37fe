package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
)

// ImportsAPI shows the batch lane's imports and steers them. Results are values whose
// JSON is the answer, without secrets and, but for Reason, without customers' data. An error that
// is a *Refusal is answered as it says, any other with 500. Methods may be called
// at any time.
type ImportsAPI interface {
	// Imports lists all mappings of the batch lane.
	Imports() any
	// Import is the one mapping's element of that list.
	Import(mapping string) (any, error)
	// Reason is what the service said about a mapping's import that went wrong,
	// which may quote customers' data.
	Reason(ctx context.Context, mapping string) (any, error)
	// Release lets a halted mapping go on.
	Release(mapping string) (any, error)
	// Roll sends the mapping's open file now; reserve: with a slot that is kept back,
	// if there is no other.
	Roll(ctx context.Context, mapping string, reserve bool) (any, error)
	// TakeSlot counts an import by hand as one of the table's day, before it is
	// sent. It returns once no crash forgets it.
	TakeSlot(ctx context.Context, mapping string) (any, error)
}

// Refusal is an answer other than yes: its HTTP status and the server's words.
type Refusal struct {
	Status  int
	Message string
	Foreign bool // to a client: what answered is no sink
}

func (r *Refusal) Error() string { return r.Message }

// A request that changes something, or asks for what may be customers' data, carries
// this header. A web page in the browser of a person who can reach the server cannot
// add it to a request to another site unless that site allows it, and this one never
// does. It keeps strangers' pages out, not people: who may reach the address may use it.
const (
	changeHeader = "X-Feedsink"
	changeValue  = "imports"
)

// sinksValue is what the same header says in every answer of a sink, by which commands tell it
// from another server.
const sinksValue = "sink"

// reasonPath is the only endpoint below /imports that may tell customers' data.
const reasonPath = "reason"

// Imports adds the endpoints of an imports API:
//
//	GET  /imports                    200 and the list
//	GET  /imports/{mapping}          200 and the one, 404
//	GET  /imports/{mapping}/reason   200 and what the service said, 404
//	POST /imports/{mapping}/release  202 and what goes on, 404, 409 if nothing is halted;
//	POST /imports/{mapping}/roll     202 and what becomes of the open file, 404, 409 if it cannot be sent;
//	                                 ?reserve=true: with a slot that is kept back
//	POST /imports/{mapping}/slots    202 and what is left, 404, 409 if nothing is
//
// The reason and the changes are refused with 403 without the header X-Feedsink:
// imports, and with 401 without the token if one is configured.
func Imports(api ImportsAPI) Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /imports", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, api.Imports(), nil)
		})
		mux.HandleFunc("GET /imports/{mapping}", func(w http.ResponseWriter, r *http.Request) {
			one, err := api.Import(r.PathValue("mapping"))
			answer(w, http.StatusOK, one, err)
		})
		guarded := func(method, path string, status int, do func(ctx context.Context, mapping string) (any, error)) {
			mux.HandleFunc(method+" /imports/{mapping}/"+path, func(w http.ResponseWriter, r *http.Request) {
				if !ownHeader(w, r, path, changeValue) {
					return
				}
				told, err := do(r.Context(), r.PathValue("mapping"))
				answer(w, status, told, err)
			})
		}
		guarded(http.MethodGet, reasonPath, http.StatusOK, api.Reason)
		guarded(http.MethodPost, "release", http.StatusAccepted, func(_ context.Context, mapping string) (any, error) { return api.Release(mapping) })
		mux.HandleFunc("POST /imports/{mapping}/roll", func(w http.ResponseWriter, r *http.Request) {
			if !ownHeader(w, r, "roll", changeValue) {
				return
			}
			told, err := api.Roll(r.Context(), r.PathValue("mapping"), r.URL.Query().Get("reserve") == "true")
			answer(w, http.StatusAccepted, told, err)
		})
		guarded(http.MethodPost, "slots", http.StatusAccepted, api.TakeSlot)
	}
}

// ownHeader answers 403 to a request without the header.
func ownHeader(w http.ResponseWriter, r *http.Request, what, value string) bool {
	if r.Header.Get(changeHeader) == value {
		return true
	}
	text(w, http.StatusForbidden, what+": the header "+changeHeader+": "+value+" is missing, which keeps web pages of others out\n")
	return false
}

// answer writes a value as JSON, or what kept it from being one as text.
func answer(w http.ResponseWriter, status int, value any, err error) {
	var body []byte
	if err == nil {
		body, err = json.MarshalIndent(value, "", "  ")
	}
	if err != nil {
		status = http.StatusInternalServerError
		if refusal, ok := errors.AsType[*Refusal](err); ok {
			status = refusal.Status
		}
		text(w, status, err.Error()+"\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, status, append(body, '\n'))
}

// Levels is how much the process logs. Both methods may be called at any time.
type Levels interface {
	// Level is the level as it is now.
	Level() string
	// SetLevel changes it; an error says which words there are.
	SetLevel(word string) error
}

// LogLevelAnswer is the JSON of both endpoints.
type LogLevelAnswer struct {
	Level string `json:"level"` // debug, info, warn or error
}

// levelValue is what X-Feedsink has to say for a change of the level.
const levelValue = "log-level"

// LogLevel adds the endpoints of this process' log:
//
//	GET  /log-level          200 and the level
//	POST /log-level/{level}  200 and the level, 400 if there is none of that name
//
// The change is refused with 403 without the header X-Feedsink: log-level, and with
// 401 without the token if one is configured. It lasts until the process ends.
func LogLevel(levels Levels, log *slog.Logger) Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /log-level", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, LogLevelAnswer{levels.Level()}, nil)
		})
		mux.HandleFunc("POST /log-level/{level}", func(w http.ResponseWriter, r *http.Request) {
			if !ownHeader(w, r, "log level", levelValue) {
				return
			}
			before := levels.Level()
			if err := levels.SetLevel(r.PathValue("level")); err != nil {
				text(w, http.StatusBadRequest, "log "+err.Error()+"\n")
				return
			}
			log.Warn("the log level was changed", "from", before, "to", levels.Level())
			answer(w, http.StatusOK, LogLevelAnswer{levels.Level()}, nil)
		})
	}
}
