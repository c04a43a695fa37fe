package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// MappingsAPI pauses mappings and lets them go on. Results and errors are as those of
// ImportsAPI. Methods may be called at any time.
type MappingsAPI interface {
	// Pause begins no more calls and imports of the mapping. Paused already, it is
	// so for the new reason and until the new time.
	Pause(ctx context.Context, mapping string, asked PauseRequest) (any, error)
	// Resume lets a mapping go on that was paused; lane: as in PauseRequest.
	Resume(ctx context.Context, mapping, lane string) (any, error)
}

// PauseRequest says what is to be paused.
type PauseRequest struct {
	Lane   string    // as in the configuration; "": all that the mapping has
	Until  time.Time // then it goes on by itself; zero: never
	Reason string    // for those who see it paused
}

// mappingsValue is what X-Feedsink has to say for a change of a mapping.
const mappingsValue = "mappings"

// Mappings adds the endpoints of a mappings API:
//
//	POST /mappings/{mapping}/pause?lane=LANE&until=TIME&reason=TEXT  202 and what is paused, 400, 404, 409
//	POST /mappings/{mapping}/resume?lane=LANE                        202 and what is still paused, 400, 404, 409
//
// All parameters may be left out; TIME is as in RFC 3339. Both are refused with 403
// without the header X-Feedsink: mappings, and with 401 without the token if one is
// configured.
func Mappings(api MappingsAPI) Part {
	return func(mux *http.ServeMux) {
		changes := func(what string, do func(ctx context.Context, mapping string, asked PauseRequest) (any, error)) {
			mux.HandleFunc("POST /mappings/{mapping}/"+what, func(w http.ResponseWriter, r *http.Request) {
				if !ownHeader(w, r, what, mappingsValue) {
					return
				}
				asked, err := pauseRequest(r)
				if err != nil {
					text(w, http.StatusBadRequest, err.Error()+"\n")
					return
				}
				told, err := do(r.Context(), r.PathValue("mapping"), asked)
				answer(w, http.StatusAccepted, told, err)
			})
		}
		changes("pause", api.Pause)
		changes("resume", func(ctx context.Context, mapping string, asked PauseRequest) (any, error) {
			return api.Resume(ctx, mapping, asked.Lane)
		})
	}
}

func pauseRequest(r *http.Request) (asked PauseRequest, err error) {
	query := r.URL.Query()
	asked.Lane, asked.Reason = query.Get("lane"), query.Get("reason")
	if until := query.Get("until"); until != "" {
		if asked.Until, err = time.Parse(time.RFC3339, until); err != nil {
			return asked, fmt.Errorf("until: must be a time such as 2026-11-21T10:00:00Z, is %.40q", until)
		}
	}
	return asked, nil
}
