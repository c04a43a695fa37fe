package admin

import (
	"net/http"
	"net/http/pprof"
)

// Profiles adds Go's profiles of the process under /debug/pprof/. They show what
// the process does, not with which data; still they are for whoever asked for
// them in the configuration.
func Profiles() Part {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
}
