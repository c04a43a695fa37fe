package admin

import (
	"embed"
	"net/http"
	"path"
)

//go:embed page
var page embed.FS

// pagePolicy lets the page load what this server has and talk to this server:
// names that the page shows came from outside.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// kinds are named here because the system's own table of them may say otherwise,
// and browsers are told to believe what they get.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// servePage adds the page that shows /status to people, and what it is made of.
func servePage(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { pageFile(w, r, "index.html") })
	mux.HandleFunc("GET /page/{file}", func(w http.ResponseWriter, r *http.Request) { pageFile(w, r, r.PathValue("file")) })
}

func pageFile(w http.ResponseWriter, r *http.Request, name string) {
	body, err := page.ReadFile(path.Join("page", name))
	kind, ours := kinds[path.Ext(name)]
	if err != nil || !ours {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	write(w, http.StatusOK, body)
}
