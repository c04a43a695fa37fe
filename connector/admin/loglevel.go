package admin

import (
	"log/slog"
	"net/http"
)

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
			if r.Header.Get(changeHeader) != levelValue {
				text(w, http.StatusForbidden, "log level: the header "+changeHeader+": "+levelValue+" is missing, which keeps web pages of others out\n")
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
