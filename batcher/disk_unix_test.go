//go:build unix

package batcher

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// While the spool's disk does not take the output files, nothing is confirmed.
func TestDiskThatTakesNoOutputFilesHoldsTheImport(t *testing.T) {
	for _, tc := range []struct {
		name    string
		inError int64
		keep    bool
		files   string
	}{
		{"rows in error", 1, false, "k,error\n1,bad\n"},
		{"rows in error that match no record", 1, false, "k,error\nC9,bad\n"},
		{"results that are kept", 0, true, "k,result\n1,INSERTED\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := rejecting(t, tc.inError, tc.files)
				m := testMapping()
				m.KeepResults, m.RetryFailed = tc.keep, 1
				var repair func()
				w.polling = func() {
					if repair == nil { // the disk breaks while the service is at work
						repair = w.blockOutputs(t)
					}
				}
				w.start(m)
				w.append(write(schemas.Upsert, "1"))
				time.Sleep(24 * time.Hour)
				_, lines := askedFor(w.transcript())
				if got := lines[len(lines)-1]; !strings.Contains(got, "poll e1: FINISHED") {
					t.Errorf("while the disk is broken: got %q, want nothing after the result", got)
				}
				repair()
				time.Sleep(time.Minute)
				w.lastSaid("confirm upsert 1/1")
			})
		})
	}
}

// blockOutputs puts directories where output files would be created and kept, until
// repair.
func (w *world) blockOutputs(t *testing.T) (repair func()) {
	t.Helper()
	file := w.b.spool.Path(w.b.Status()[0].Import.File)
	for _, suffix := range []string{".errors.part", ".errors"} {
		check(t, os.MkdirAll(file+suffix+"/x", 0o700))
	}
	return func() {
		for _, suffix := range []string{".errors.part", ".errors"} {
			check(t, os.RemoveAll(file+suffix))
		}
	}
}
