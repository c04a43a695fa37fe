package sandbox

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
)

//go:embed page.html
var pageHTML []byte

// pagePolicy lets the page's own script run and nothing else: what the tables
// hold came from outside.
var pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + scriptHash(pageHTML) +
	"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func scriptHash(page []byte) string {
	_, script, _ := bytes.Cut(page, []byte("<script>"))
	script, _, _ = bytes.Cut(script, []byte("</script>"))
	sum := sha256.Sum256(script)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// page serves the page, which asks for the overview and for rows as long as it
// is open. Whoever comes by the bare address is sent there.
func (s *Sandbox) page() {
	s.mux.HandleFunc("GET /_sandbox/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Security-Policy", pagePolicy)
		_, _ = w.Write(pageHTML) // a browser that has gone needs no page
	})
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/_sandbox/", http.StatusFound)
	})
}
