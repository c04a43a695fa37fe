//go:build debezium

package debezium_test

import (
	"flag"
	"path/filepath"
	"testing"
)

var record = flag.Bool("record", false, "write the events of every mode to testdata anew")

// recorded are the tables that a mode shows something new of; all, where
// nothing is said. Events with their schema take much room.
var recorded = map[string]string{
	"connect":    "public.kinds,public.large",
	"micros":     "public.kinds,public.large",
	"iso":        "public.kinds",
	"flatschema": "public.kinds,public.orders",
}

// TestEventsAreRecordedAnew writes testdata/MODE.jsonl for every mode.
func TestEventsAreRecordedAnew(t *testing.T) {
	if !*record {
		return // the events of one recording serve until Debezium's next version
	}
	p := startPostgres(t)
	p.script("tables.sql")
	var files []string
	for mode := range modes {
		file, err := filepath.Abs(filepath.Join("testdata", mode+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{"feedsink.file=" + file}
		if tables, ok := recorded[mode]; ok {
			lines = append(lines, "table.include.list="+tables+",public.finished")
		}
		files = append(files, p.properties(mode, lines...))
	}
	wait := engines(t, files...)
	p.watched(len(modes))
	p.script("changes.sql")
	wait()
}
