package sandbox

import (
	"io"
	"net/http"
	"strings"
)

// gateway writes what stands in front of the service says instead of it.
func (a Answer) gateway(w http.ResponseWriter) {
	kind := "text/plain; charset=utf-8"
	if strings.HasPrefix(a.text, "<") {
		kind = "text/html; charset=utf-8"
	}
	if a.text != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.text) // the client has gone; there is nobody to tell
}
