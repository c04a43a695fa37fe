package admin

import (
	"context"
	"net/http"
	"time"
)

// ReloadAPI puts a changed configuration in force. Results and errors are as those of
// ImportsAPI.
type ReloadAPI interface {
	// Reload reads the configuration file again. It may take as long as a call.
	Reload(ctx context.Context) (any, error)
}

// reloadValue is what X-Feedsink has to say for a reload.
const reloadValue = "reload"

// Reload adds the endpoint of a reload API:
//
//	POST /reload  200 and what has changed, 400 for a file that cannot work, 409 for one that needs a restart
//
// It is refused with 403 without the header X-Feedsink: reload, and with 401 without
// the token if one is configured.
func Reload(api ReloadAPI) Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
			if !ownHeader(w, r, "reload", reloadValue) {
				return
			}
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // service.timeout may be longer
			told, err := api.Reload(r.Context())
			answer(w, http.StatusOK, told, err)
		})
	}
}

// Reload has the configuration read again and reads what has changed into a pointer. It
// waits for as long as ctx lasts.
func (c *Client) Reload(ctx context.Context, into any) error {
	patient := *c
	patient.http.Timeout = 0
	return patient.ask(ctx, http.MethodPost, into, "reload")
}
