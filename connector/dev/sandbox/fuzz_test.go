package sandbox

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox/csvfile"
)

// FuzzDefinition reads definitions of both kinds: what is taken can be loaded,
// everything else is refused as the caller's mistake.
func FuzzDefinition(f *testing.F) {
	s, err := New(Config{Entity: "e", APIKeys: []string{"k"}, Dir: f.TempDir(), Tables: []Table{
		{Name: "p", Keys: []string{"k"}, Fields: []Field{{Name: "n", Type: Integer}, {Name: "d", Type: Date}}},
		{Name: "c", Custom: true, Open: true},
	}})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := s.Folder(Location{Remote: "r"}); err != nil {
		f.Fatal(err)
	}
	f.Add(`{"type":"TRIGGERED","triggering":{"type":"API","paused":true},"reportRecipients":["a@example.com"],
		"fileTransfer":{"input":{"files":[{"fileCode":"a","fileNamePattern":"a_$YYYYMMDD.csv","compressionType":"ZIP","compressedFileNamePattern":"*.zip"},
		{"fileCode":"b","fileNamePattern":"b.csv"}],"location":{"type":"REMOTE","remoteLocationId":"r"}},"output":{"location":{"type":"TRANSFERBOX","entity":"e"}}},
		"inputFilesProperties":[{"fileCode":"a","csvFormat":{"encoding":"UTF-8","separator":";","enclosing":"'"}},{"fileCode":"b","csvFormat":{}}],
		"dataTransformations":[{"fileCode":"a","transformations":[{"header":"d","transformation":{"type":"DATE_FORMAT","format":"dd/MM/yyyy 'at' HH:mm"}}]}],
		"dataLoadings":[{"fileCode":"a","destination":{"type":"PROFILE_TABLE","id":"p","attributesMapping":[{"header":"k","attributeName":"k","ignoreEmptyValues":true},
		{"header":"d","attributeName":"d"}]},"parameters":{"mode":"CREATE_ONLY","generateErrorFiles":true}},
		{"fileCode":"b","destination":{"type":"CUSTOM_TABLE","id":"c","attributesMapping":[{"header":"k","attributeName":"businessKey"}]},"parameters":{"mode":"DELETE"}}]}`, false)
	f.Add(`{"type":"ONESHOT","fileTransfer":{"input":{"file":{"fileNamePattern":"c.csv"},"location":{"type":"REMOTE","remoteLocationId":"r"}}},
		"inputFileProperties":{"csvFormat":{"separator":","}},"dataTransformation":{"transformations":[]},"transformations":[],
		"dataLoading":{"destination":{"type":"PROFILE_TABLE","id":"p","attributesMapping":[{"header":"k","attributeName":"k"}]},"parameters":{"mode":"UPDATE_ONLY"}}}`, true)
	f.Add(`{}`, true)
	f.Fuzz(func(t *testing.T, body string, oneShot bool) {
		var d definition
		err := decode([]byte(body), &d)
		var e ETL
		if err == nil {
			e, err = s.etl(d, oneShot)
		}
		var refused *refusal
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("got %v, want a refusal", err)
		}
		if err != nil {
			return
		}
		if len(e.Loads) == 0 {
			t.Fatal("a definition that loads nothing was taken")
		}
		for _, l := range e.Loads {
			if s.tables[l.Table] == nil || len(l.Columns) == 0 {
				t.Fatalf("got %+v, want a table and a mapping", l)
			}
		}
	})
}

// FuzzLoad feeds whole uploads, packed or not: an execution has to end, and
// the counters have to add up.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"k,n\na,1\nb,x\n", "k\na\nb\na\n", "k,k\n", "PK\x03\x04", "\x1f\x8b\x08", "k,n\n\"a", ""} {
		f.Add([]byte(seed), uint8(0))
	}
	modes := []Mode{CreateOrUpdate, CreateOnly, UpdateOnly, DeleteRows}
	f.Fuzz(func(t *testing.T, content []byte, mode uint8) {
		l := &loading{
			Load:  Load{Table: "t", Mode: modes[int(mode)%len(modes)]},
			table: newTable(Table{Name: "t", Keys: []string{"k"}, Fields: []Field{{Name: "n", Type: Integer}}}),
			file:  csvfile.File{Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }},
		}
		if err := l.check(); err != nil {
			return
		}
		if err := l.apply(func() int64 { return 1 }); err != nil {
			t.Fatalf("%q passed the check and then: %v", content, err)
		}
		r := l.loaded.Results
		if r.InError+r.Inserted+r.Updated+r.Deleted > r.Read || int64(len(l.table.rows)) != r.Inserted {
			t.Fatalf("%q: %+v with %d rows", content, r, len(l.table.rows))
		}
	})
}
