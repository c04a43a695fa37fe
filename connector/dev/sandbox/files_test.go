package sandbox_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// remote makes the location "crm" with these files and returns its folder.
func (v *service) remote(files map[string][]byte) string {
	v.t.Helper()
	dir, err := v.Folder(sandbox.Location{Remote: "crm"})
	if err != nil {
		v.t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			v.t.Fatal(err)
		}
	}
	return dir
}

// names lists a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// remoteShot is a one-shot definition in the JSON form.
func remoteShot(input string) string {
	return `{"type":"ONESHOT","fileTransfer":{"input":{"location":{"type":"REMOTE","remoteLocationId":"crm"},` + input + `},
		"output":{"location":{"type":"TRANSFERBOX","entity":"acme"}}},
		"inputFileProperties":{"csvFormat":{"separator":","}},
		"dataLoading":{"destination":{"type":"PROFILE_TABLE","id":"customers","attributesMapping":[
			{"header":"customerNumber","attributeName":"customerNumber"},{"header":"age","attributeName":"age"}]},
			"parameters":{"mode":"CREATE_OR_UPDATE","generateErrorFiles":true}}}`
}

func TestOneShotFetchesFromARemoteLocation(t *testing.T) {
	const csv = "customerNumber,age\nC1,1\nC2,x\n"
	two := map[string]string{"a.csv": csv, "b.csv": csv}
	for _, c := range []struct {
		name, input string
		files       map[string][]byte
		status      sandbox.ExecutionStatus
		err, file   string
		left        []string // in the location
	}{
		{
			"plain", `"file":{"fileNamePattern":"c-$YYYYMMDD.csv","compressionType":"NONE"}`,
			map[string][]byte{"c-20261120.csv": []byte("nope\n"), "c-20261121.csv": []byte(csv), "c-2026.csv": nil},
			sandbox.Finished, "", "c-20261121.csv",
			[]string{"c-2026.csv", "c-20261120.csv", "c-20261121.csv"},
		},
		{
			"gzip, deleted on success", `"file":{"fileNamePattern":"c.csv","compressionType":"GZIP","compressedFileNamePattern":"c-*.gz"},"deleteFilesOnSuccess":true`,
			map[string][]byte{"c-1.gz": gzipped(t, csv), "keep.csv": nil},
			sandbox.Finished, "", "c-1.gz",
			[]string{"keep.csv"},
		},
		{
			"zip", `"file":{"fileNamePattern":"c.csv","compressionType":"ZIP","compressedFileNamePattern":"c.zip"},"deleteFilesOnSuccess":false`,
			map[string][]byte{"c.zip": zipped(t, map[string]string{"any.csv": csv})},
			sandbox.Finished, "", "c.zip",
			[]string{"c.zip"},
		},
		{
			"zip of two", `"file":{"fileNamePattern":"a.csv","compressionType":"ZIP","compressedFileNamePattern":"c.zip"},"deleteFilesOnSuccess":true`,
			map[string][]byte{"c.zip": zipped(t, two)},
			sandbox.Failed, "invalid file: a ZIP with one file is expected, it holds 2", "c.zip",
			[]string{"c.zip"},
		},
		{
			"missing", `"file":{"fileNamePattern":"c.csv"}`,
			map[string][]byte{"C.csv": []byte(csv)},
			sandbox.Failed, "missing file: none at the remote location matches c.csv", "",
			[]string{"C.csv"},
		},
		{
			"packed otherwise", `"file":{"fileNamePattern":"c.csv","compressionType":"ZIP"}`,
			map[string][]byte{"c.csv": []byte(csv)},
			sandbox.Failed, "invalid file: compressionType ZIP is expected, it is NONE", "c.csv",
			[]string{"c.csv"},
		},
	} {
		cfg := config()
		cfg.Dir = t.TempDir()
		v := newService(t, cfg)
		dir := v.remote(c.files)
		e := v.finish(v.send(http.MethodPost, massBase+"/etl-executions", "application/json", strings.NewReader(remoteShot(c.input))))
		if e.Status != c.status || e.Error != c.err || e.File != c.file {
			t.Errorf("%s: got %s %q of %q, want %s %q of %q", c.name, e.Status, e.Error, e.File, c.status, c.err, c.file)
		}
		if got := names(t, dir); !slices.Equal(got, c.left) {
			t.Errorf("%s: left at the location: got %q, want %q", c.name, got, c.left)
		}
		if applied := v.Len("customers"); applied != map[sandbox.ExecutionStatus]int{sandbox.Finished: 1}[c.status] {
			t.Errorf("%s: got %d rows with %s", c.name, applied, c.status)
		}
		if got := v.SlotsUsed("customers", e.Accepted); got != 1 {
			t.Errorf("%s: got %d slots used, want 1", c.name, got)
		}
		for _, name := range names(t, cfg.Dir) {
			if strings.Contains(name, "-in") {
				t.Errorf("%s: a copy was left behind: %s", c.name, name)
			}
		}
	}
}

func TestTriggeredETLFetchesWhenNoFileIsPushed(t *testing.T) {
	c := config()
	c.ETLs = []sandbox.ETL{{ID: "all", Fetch: sandbox.Fetch{Remote: "crm", Delete: true}, Loads: []sandbox.Load{
		{Table: "customers", Mode: sandbox.CreateOrUpdate, FileNamePattern: "customers-*.csv", Compression: "ZIP", CompressedFileNamePattern: "all.zip"},
		{Table: "orders", Mode: sandbox.CreateOrUpdate, FileNamePattern: "orders.csv", Compression: "ZIP", CompressedFileNamePattern: "all.zip"},
	}}}
	v := newService(t, c)
	both := zipped(t, map[string]string{"orders.csv": "businessKey\no1\n", "customers-1.csv": "customerNumber\nC1\n"})
	dir := v.remote(map[string][]byte{"all.zip": both})
	path := massBase + "/etls/all/trigger-execution"
	for _, body := range []string{"", "{}"} {
		v.remote(map[string][]byte{"all.zip": both})
		e := v.finish(v.send(http.MethodPost, path, "", strings.NewReader(body)))
		if e.Status != sandbox.Finished || len(e.Loads) != 2 || e.Bytes != int64(len(both)) || v.Len("orders") != 1 || v.Len("customers") != 1 {
			t.Errorf("body %q: got %+v", body, e)
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("body %q: left at the location: got %q, want nothing", body, got)
		}
	}
	if e := v.finish(v.send(http.MethodPost, path, "", nil)); !strings.HasPrefix(e.Error, "missing file") {
		t.Errorf("a second time: got %s %s, want a missing file", e.Status, e.Error)
	}
	if e := v.finish(v.push("all", "pushed.zip", both)); e.Status != sandbox.Finished || e.File != "pushed.zip" {
		t.Errorf("pushed all the same: got %+v", e)
	}
	v.must(400, http.MethodPost, path, `{"file":"x"}`)
}

func TestOutputFilesAreDroppedAtTheirLocation(t *testing.T) {
	for shape, want := range map[string]string{
		"": "1001-file-error.csv", "gzip": "1001-file-error.csv.gz", "zip": "1001-file-error.zip",
	} {
		for _, at := range []sandbox.Location{{Remote: "crm"}, {TransferBox: "acme"}} {
			c := config()
			c.Folders, c.Shapes.Output = t.TempDir(), shape
			c.ETLs[0].Output = at
			v := newService(t, c)
			v.remote(nil)
			e := v.load("up", "customerNumber,age\nC1,x\n")
			content, err := os.ReadFile(filepath.Join(c.Folders, filepath.FromSlash(e.Dropped)))
			if err != nil || filepath.Base(e.Dropped) != want {
				t.Errorf("%+v: got %q %v, want %s", at, e.Dropped, err, want)
				continue
			}
			if got := unpacked(t, content); len(got) != 1 || !strings.Contains(got[0], "C1,x,age: not a whole number") {
				t.Errorf("%+v: got %q", at, got)
			}
			if e := v.load("up", "customerNumber,age\nC1,1\n"); e.Dropped != "" {
				t.Errorf("%+v: without output files: got %q dropped", at, e.Dropped)
			}
		}
	}
}

func TestNothingOutsideOfALocationIsReached(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "c.csv"), []byte("customerNumber\nC1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config()
	c.Folders = filepath.Join(t.TempDir(), "locations")
	v := newService(t, c)
	dir := v.remote(nil)
	const file = `"file":{"fileNamePattern":"c.csv"}`
	for _, id := range []string{"..", ".", "../crm", "crm/..", `..\\crm`, "/", "none", "a/b"} {
		body := strings.Replace(remoteShot(file), `"crm"`, `"`+id+`"`, 1)
		if status, answer := v.call(http.MethodPost, massBase+"/etl-executions", body); status != 400 || !strings.Contains(answer, "no such remote location") {
			t.Errorf("input at %q: got %d %s, want 400", id, status, answer)
		}
		body = strings.Replace(remoteShot(file), `"type":"TRANSFERBOX","entity":"acme"`, `"type":"REMOTE","remoteLocationId":"`+id+`"`, 1)
		if status, answer := v.call(http.MethodPost, massBase+"/etl-executions", body); status != 400 || !strings.Contains(answer, "no such remote location") {
			t.Errorf("output at %q: got %d %s, want 400", id, status, answer)
		}
		if _, err := v.Folder(sandbox.Location{Remote: id}); err == nil && id != "none" {
			t.Errorf("folder %q: got no error", id)
		}
	}
	body := strings.Replace(remoteShot(file), `"entity":"acme"`, `"entity":"other"`, 1)
	v.must(400, http.MethodPost, massBase+"/etl-executions", body)

	for link, to := range map[string]string{"c.csv": filepath.Join(outside, "c.csv"), "d.csv": "../../d.csv"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(c.Folders, "remote", "away")); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{remoteShot(file), remoteShot(`"file":{"fileNamePattern":"d.csv"}`), remoteShot(`"file":{"fileNamePattern":"../crm/c.csv"}`)} {
		e := v.finish(v.send(http.MethodPost, massBase+"/etl-executions", "application/json", strings.NewReader(body)))
		if e.Status != sandbox.Failed || !strings.HasPrefix(e.Error, "missing file") {
			t.Errorf("a link: got %s %s, want a missing file", e.Status, e.Error)
		}
	}
	away := strings.Replace(remoteShot(file), `"crm"`, `"away"`, 1)
	v.must(400, http.MethodPost, massBase+"/etl-executions", away)

	// A ZIP may name its files as it likes.
	c.ETLs[0].Output = sandbox.Location{Remote: "crm"}
	v = newService(t, c)
	e := v.finish(v.push("up", "x.zip", zipped(t, map[string]string{"../../../../evil.csv": "customerNumber,age\nC1,x\n"})))
	if want := "remote/crm/" + e.ID + "-evil-error.csv"; e.Dropped != want {
		t.Errorf("got %q dropped, want %q", e.Dropped, want)
	}
}

func TestCompressionIsToldByContent(t *testing.T) {
	const csv = "customerNumber\nC1\nC2\n"
	for name, content := range map[string][]byte{
		"plain": []byte(csv), "gzip": gzipped(t, csv), "zip": zipped(t, map[string]string{"a.csv": csv}),
		"mark": []byte("\xef\xbb\xbf" + csv),
	} {
		v := newService(t, config())
		if e := v.finish(v.push("up", "any.name", content)); e.Results.Inserted != 2 || e.Bytes != int64(len(content)) {
			t.Errorf("%s: got %s %s %+v", name, e.Status, e.Error, e)
		}
	}
	v := newService(t, config())
	two := zipped(t, map[string]string{"a.csv": csv, "b.csv": csv})
	if e := v.finish(v.push("up", "two.zip", two)); e.Status != sandbox.Failed {
		t.Errorf("two files for one load: got %s, want FAILED", e.Status)
	}
}

func TestMultiFileETLLoadsItsFilesInOrder(t *testing.T) {
	c := config()
	c.ETLs = []sandbox.ETL{{ID: "all", Loads: []sandbox.Load{
		{Table: "customers", Mode: sandbox.CreateOrUpdate, FileNamePattern: "customers-$YYYYMMDD.csv"},
		{Table: "orders", Mode: sandbox.CreateOrUpdate, FileNamePattern: "orders-*.csv"},
	}}}
	v := newService(t, c)
	e := v.finish(v.push("all", "all.zip", zipped(t, map[string]string{
		"orders-7.csv": "businessKey,total\no1,4\n", "customers-20261121.csv": "customerNumber\nC1\n",
	})))
	if e.Status != sandbox.Finished || len(e.Loads) != 2 || e.Loads[0].Seq >= e.Loads[1].Seq {
		t.Fatalf("got %+v", e)
	}
	v.wantRow("orders", "o1", map[string]string{"businessKey": "o1", "total": "4"})
	for table, want := range map[string]int{"customers": 1, "orders": 1} {
		if got := v.SlotsUsed(table, time.Now()); got != want {
			t.Errorf("%s: got %d slots used, want %d", table, got, want)
		}
	}
	const customer, order = "customerNumber\nC2\n", "businessKey\no2\n"
	for name, files := range map[string]map[string]string{
		"a file without its pattern": {"customers-20261122.csv": customer, "orders.csv": order},
		"two files for one pattern":  {"customers-20261122.csv": customer, "orders-1.csv": order, "orders-2.csv": order},
		"a file too many":            {"customers-20261122.csv": customer, "orders-1.csv": order, "readme.txt": ""},
		"a broken second file":       {"customers-20261122.csv": customer, "orders-1.csv": "nope\n"},
	} {
		e = v.finish(v.push("all", "all.zip", zipped(t, files)))
		if e.Status != sandbox.Failed || v.Len("customers") != 1 {
			t.Errorf("%s: got %s and %d customers, want FAILED and 1", name, e.Status, v.Len("customers"))
		}
	}
}

func TestImportsOfATableCanBeMadeToFail(t *testing.T) {
	v := newService(t, config())
	v.FailImports("customers", 1, "out of order")
	if e := v.load("up", "customerNumber\nC1\n"); e.Status != sandbox.Failed || e.Error != "out of order" {
		t.Errorf("got %s %s, want FAILED out of order", e.Status, e.Error)
	}
	if e := v.load("up", "customerNumber\nC1\n"); e.Status != sandbox.Finished {
		t.Errorf("the next one: got %s, want FINISHED", e.Status)
	}
}

func TestUploadsHaveTheirShape(t *testing.T) {
	v := newService(t, config())
	path := massBase + "/etls/up/trigger-execution"
	for name, parts := range map[string]map[string][]byte{
		"no file": {}, "another part": {"file": []byte("x")}, "one-shot": {"inputFile": []byte("x"), "oneshotEtl": []byte("{}")},
	} {
		kind, body := form(t, parts, "f.csv")
		if w := v.send(http.MethodPost, path, kind, body); w.Code != 400 {
			t.Errorf("%s: got %d, want 400", name, w.Code)
		}
	}
	v.must(400, http.MethodPost, path, "{}")
	kind, body := form(t, map[string][]byte{"inputFile": bytes.Repeat([]byte("x"), 4096)}, "f.csv")
	body.Truncate(2048)
	if w := v.send(http.MethodPost, path, kind, body); w.Code != 400 {
		t.Errorf("cut upload: got %d, want 400", w.Code)
	}
	v.must(404, http.MethodPost, massBase+"/etls/none/trigger-execution", "{}")
	if got := len(v.Executions()); got != 0 {
		t.Errorf("got %d executions, want none", got)
	}
	if got := v.SlotsUsed("customers", time.Now()); got != 0 {
		t.Errorf("got %d slots used by refused uploads, want none", got)
	}
}

func TestUploadsLeaveNoFileBehind(t *testing.T) {
	c := config()
	c.Dir = t.TempDir()
	v := newService(t, c)
	files := func() int {
		list, err := os.ReadDir(c.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	v.Inject(sandbox.Fault{Count: 1, Answer: sandbox.Status(503)})
	v.push("up", "file.csv", []byte("customerNumber\nC1\n"))
	if got := files(); got != 0 {
		t.Errorf("after a fault: got %d files, want none", got)
	}
	v.Hold()
	for range 5 {
		v.push("up", "file.csv", []byte("customerNumber\nC1\n"))
	}
	if got := files(); got != 5 {
		t.Errorf("held: got %d files, want 5", got)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if got := files(); got != 0 {
		t.Errorf("closed: got %d files, want none", got)
	}
}

func gzipped(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpacked lists the files of an answer, told by its content.
func unpacked(t *testing.T, b []byte) []string {
	t.Helper()
	read := func(r io.Reader, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	switch {
	case bytes.HasPrefix(b, []byte("PK")):
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for _, f := range z.File {
			r, err := f.Open()
			files = append(files, read(r, err))
		}
		return files
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bytes.NewReader(b))
		return []string{read(z, err)}
	}
	return []string{string(b)}
}
