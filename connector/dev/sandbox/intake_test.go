package sandbox_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

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
