package admin

import (
	"context"
	"encoding/json"
	"errors"
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
	// TakeSlot counts an import by hand as one of the table's day, before it is
	// sent.
	TakeSlot(mapping string) (any, error)
}

// Refusal is an answer other than yes: its HTTP status and the server's words.
type Refusal struct {
	Status  int
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// A request that changes something, or asks for what may be customers' data, carries this header. A web page in the browser
// of somebody who can reach the server cannot add it to a request to another
// site unless that site allows it, and this one never does. It keeps strangers'
// pages out, not people: who may reach the address may use it.
const (
	changeHeader = "X-Feedsink"
	changeValue  = "imports"
)

// reasonPath is the only endpoint below /imports that may tell customers' data.
const reasonPath = "reason"

// Imports adds the endpoints of an imports API:
//
//	GET  /imports                    200 and the list
//	GET  /imports/{mapping}          200 and the one, 404
//	GET  /imports/{mapping}/reason   200 and what the service said, 404
//	POST /imports/{mapping}/release  202 and what goes on, 404, 409 if nothing is halted;
//	POST /imports/{mapping}/slots    202 and what is left, 404, 409 if nothing is
//
// The reason and both changes are refused with 403 without the header X-Feedsink:
// imports, and with 401 without the token if one is configured.
func Imports(desk ImportsAPI) Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /imports", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, desk.Imports(), nil)
		})
		mux.HandleFunc("GET /imports/{mapping}", func(w http.ResponseWriter, r *http.Request) {
			one, err := desk.Import(r.PathValue("mapping"))
			answer(w, http.StatusOK, one, err)
		})
		guarded := func(method, path string, status int, do func(ctx context.Context, mapping string) (any, error)) {
			mux.HandleFunc(method+" /imports/{mapping}/"+path, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(changeHeader) != changeValue {
					text(w, http.StatusForbidden, path+": the header "+changeHeader+": "+changeValue+" is missing, which keeps web pages of others out\n")
					return
				}
				told, err := do(r.Context(), r.PathValue("mapping"))
				answer(w, status, told, err)
			})
		}
		guarded(http.MethodGet, reasonPath, http.StatusOK, desk.Reason)
		guarded(http.MethodPost, "release", http.StatusAccepted, func(_ context.Context, mapping string) (any, error) { return desk.Release(mapping) })
		guarded(http.MethodPost, "slots", http.StatusAccepted, func(_ context.Context, mapping string) (any, error) { return desk.TakeSlot(mapping) })
	}
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
