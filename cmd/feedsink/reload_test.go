package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The sink refuses a file that cannot work, and says so on its page, in its log and by a metric:
// the command takes from the file no more than where the sink is.
func TestFileWithAMistakeReachesTheSink(t *testing.T) {
	asked := false
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path == "/reload"
		w.Header().Set("X-Feedsink", "sink")
		http.Error(w, "feedsink.yaml:4: mappings[0].topics: is missing", http.StatusUnprocessableEntity)
	}))
	defer sink.Close()
	file := filepath.Join(t.TempDir(), "feedsink.yaml")
	text := "admin: {listen: \"" + sink.Listener.Addr().String() + "\"}\nmappings:\n  - name: orders\n    routs: []\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, code, err := command(t, "reload", "-c", file)
	if !asked || code == 0 || err == nil || !strings.Contains(err.Error(), "topics: is missing") {
		t.Errorf("got asked %v, code %d, %v, want what the sink says of the file", asked, code, err)
	}
}
