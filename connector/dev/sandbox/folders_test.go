package sandbox_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
		{Table: "customers", Mode: sandbox.CreateOrUpdate, FileNamePattern: "customers-*.csv", Compression: sandbox.Zip, CompressedFileNamePattern: "all.zip"},
		{Table: "orders", Mode: sandbox.CreateOrUpdate, FileNamePattern: "orders.csv", Compression: sandbox.Zip, CompressedFileNamePattern: "all.zip"},
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
	for shape, want := range map[sandbox.OutputShape]string{
		sandbox.OutputCSV: "1001-file-error.csv", sandbox.OutputGzip: "1001-file-error.csv.gz", sandbox.OutputZip: "1001-file-error.zip",
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
