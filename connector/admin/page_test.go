package admin

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
)

func TestPageIsServedWithAPolicyThatLetsNobodyElseIn(t *testing.T) {
	h := whole(Access{}, &oneImport{}, nil)
	files, err := fs.ReadDir(page, "page")
	if err != nil {
		t.Fatal(err)
	}
	questions := map[string]string{"/": ".html"}
	for _, file := range files {
		questions["/page/"+file.Name()] = path.Ext(file.Name())
	}
	for question, kind := range questions {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, question, nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kinds[kind] {
			t.Errorf("%s: got %d, %s, want 200, %s", question, w.Code, w.Header().Get("Content-Type"), kinds[kind])
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy: got %q, want nothing but the page's own", question, policy)
		}
		for _, elsewhere := range []string{"src=\"http", "href=\"http", "from \"http", "url(http", "@import"} {
			if strings.Contains(w.Body.String(), elsewhere) {
				t.Errorf("%s: holds %s, want no asset from elsewhere", question, elsewhere)
			}
		}
	}
}

func TestPageHasNoOtherFiles(t *testing.T) {
	h := whole(Access{}, &oneImport{}, nil)
	for _, question := range []string{"/page/", "/page/none.js", "/page/..%2fpage.go", "/page/.", "/index.html", "/page/page/main.js"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, question, nil))
		if w.Code == http.StatusOK {
			t.Errorf("%s: got 200, want no such file", question)
		}
	}
}
